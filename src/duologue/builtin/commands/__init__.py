"""The slash commands of the built-in agent, one module per subject.

Each module lists its commands in `COMMANDS`; `builtin.command_table` collects them. Nothing outside `builtin`
imports this package.
"""
