"""Convert between the version-free model and the messages of the protocol, one package per version.

What an agent does and what a user sees does not belong here. Agents, clients and relays may import it.
"""
