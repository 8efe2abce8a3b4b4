"""The agent side: the agent, its sessions and turns, and what a turn can do.

Message formats and versions do not belong here, and nothing of the client's side does. Programs and adapters import it.
"""
