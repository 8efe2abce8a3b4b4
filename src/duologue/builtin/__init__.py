"""The built-in agent: every feature of the protocol on demand, no model, no key, no network.

What every agent needs belongs to `agent`; here is only what this one does. The command line and tests import it.
"""
