"""Replay: play the agent's side of a recording to a client, or the client's side to an agent, and compare.

Nothing here does I/O or reads a clock: frames and the time come in, frames go out. `testing` connects it to transports.
"""
