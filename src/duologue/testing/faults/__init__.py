"""Faults of connections, reproducible by a seed, and a clock that does not wait.

Faults are applied to any transport, or to the bytes of a stream in memory. Agents, clients and scripts do not belong
here. Tests import it through `duologue.testing`.
"""
