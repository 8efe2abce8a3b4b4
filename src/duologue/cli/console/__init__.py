"""Terminal input and output of the command line: rendering, prompts, line editing and interrupts.

Text from agents passes one sanitizer before it reaches a terminal. The commands in `cli.commands` import this package;
it does not know the command line's options.
"""
