"""For people who write editors and tools: reaching an agent, its sessions and turns, and what it may do to us.

Wire shapes and versions do not belong here, and nothing of the agent's side does. Programs and the config import it.
"""
