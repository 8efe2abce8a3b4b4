"""For people who write agents: the agent, its sessions, its turns, and what a turn can do.

Wire shapes and versions do not belong here, and nothing of the client's side does. Programs and adapters import it.
"""
