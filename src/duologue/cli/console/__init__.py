"""What a person sees and types: rendering, prompts, line editing and interrupts.

Text of agents passes one sanitizer before it reaches a terminal. The commands in `cli.commands` import this package; it
knows nothing of the command line's options.
"""
