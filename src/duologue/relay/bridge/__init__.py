"""Connect a client that speaks one version of the protocol with an agent that speaks another.

Messages are decoded and encoded again, so neither end notices; what only one version can express is converted, or
reported as lost. Only programs such as `cli` import this package.
"""
