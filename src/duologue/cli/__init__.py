"""The `duologue` command: its arguments, one module per subcommand, and the console output they share.

Functions that programs could also use do not belong here. Nothing imports this package.
"""
