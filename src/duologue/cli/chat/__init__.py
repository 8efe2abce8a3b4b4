"""Parts of `duologue chat`: line editors, the queue of prompts, and the commands of the chat itself.

A line editor reads lines also while the agent works and keeps them apart from the output. What is entered during a
turn waits in the queue. The command in `cli.commands.chat` connects the parts.
"""
