"""One module per `duologue` command, each with the function that runs it.

Parsing is in `cli.parser`, output in `cli.console`. Only `cli.main` imports this package, and each module only when its
command is given.
"""
