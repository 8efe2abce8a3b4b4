"""Stores for sessions that outlive a process: their updates, the state of their turns, and data of the agent.

Message formats, running prompts and connections do not belong here: a store saves updates and returns them. Both sides
and everything above may import it.
"""
