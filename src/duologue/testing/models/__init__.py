"""Model servers that play a script: the protocols of OpenAI and Anthropic on loopback, for tests without a key.

`ModelServer` and the classes of a script are exported by `duologue.testing`. `python -m duologue.testing.models FILE`
runs one for programs in any language. It needs the extra `remote`; no client library of a model is imported here.
"""
