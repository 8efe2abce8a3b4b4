"""`duologue agents`: one module for each group of its subcommands.

What a subcommand does belongs to `duologue.registry`; here it is called and its result shown. `cli.parsers.agents`
names the function of each subcommand, and `cli.main` imports its module.
"""
