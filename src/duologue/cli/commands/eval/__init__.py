"""The subcommands of `duologue eval`: one module for each.

What a subcommand does belongs to `duologue.evals`; here it is called and its result shown. `cli.parsers.evals` names
the function of each.
"""
