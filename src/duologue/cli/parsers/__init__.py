"""Parsers of the commands that have many options or subcommands.

What a command does belongs to `cli.commands`. `cli.parser`, which has the parsers of all other commands, imports this
package; nothing here imports it, or the library.
"""
