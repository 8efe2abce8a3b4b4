"""The subcommands of `duologue trace`: one module for each.

What a subcommand finds out belongs to `duologue.trace`; here it is called and its result shown.
`cli.parsers.recordings` names the function of each.
"""
