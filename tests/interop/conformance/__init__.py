"""Agents on the SDKs that `duologue check` is run against, and what it is known to find in them.

`agents.py` lists the programs: those of this suite, and the examples that the SDKs publish. `known/` has a baseline for
each, with the reason of every finding; its `suite.toml` has what the programs of this suite do wrong on purpose or for
brevity, whichever SDK they stand on.
"""
