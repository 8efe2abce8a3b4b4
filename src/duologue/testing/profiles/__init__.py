"""Habits of published clients and agents on the wire, as data, and the peers that play them.

Each file of `clients` is a script, each file of `agents` a description of turns. How duologue's own sides live with
these habits does not belong here. Tests import it through `duologue.testing`.
"""
