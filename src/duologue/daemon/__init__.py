"""A process for each user that keeps agents started for `duologue run --warm`, and runs prompts in the background.

It listens on a Unix socket that only its owner can reach, and checks the user at its other end. The client's side of
that socket is here, too; what the commands print is not. Programs such as `cli` import this package.
"""
