"""Conversion between what the two sides mean and what is on the wire, one package per version of the protocol.

What an agent does and what a user sees does not belong here. Agents, clients and relays may import it.
"""
