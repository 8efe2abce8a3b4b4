"""Sessions that outlive a process: what was said, where a turn stood, and what an agent keeps beside it.

Wire shapes, prompts that run and connections do not belong here: a store takes updates and gives them back. Both
sides and everything above may import it.
"""
