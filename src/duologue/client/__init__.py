"""The client side: connecting to an agent, its sessions and turns, and what it may do on this machine.

Message formats and versions do not belong here, and nothing of the agent side does. Programs and `config` import it.
"""
