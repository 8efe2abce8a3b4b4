"""Check agents and clients against the rules of the protocol: `duologue check`.

`agent_cases` drive an agent, `client_cases` play an agent for a client, both with raw messages; each case judges some
rules of `duologue.trace.rules.catalogue`, and the passive rules of `duologue.trace` judge the messages of every case.
Nothing imports this package but the command line.
"""
