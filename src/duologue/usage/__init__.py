"""Usage that adds up: tokens of a turn, tokens and cost of a session, size of the context, each with its provenance.

Agents report tokens in different ways: for each turn, as a running total, or for the last request to the model only.
`habits` lists what each known agent does, `counter` applies that to a session, and finds it out for other agents.
This package is pure: numbers in, numbers out. `client`, `store`, `events` and `cli` import it.
"""
