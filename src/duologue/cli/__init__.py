"""The `duologue` command: what a person types in a terminal, one module per subcommand.

What a program could also want does not belong here; this room uses public names only. Nothing imports it.
"""
