"""Peers that speak the dialects of older documents, made to look like today's v1: one frame in, frames out.

Rewritings of raw JSON belong here, each a named rule with a golden vector; typed shapes, sessions and I/O do not.
Agents, clients, relays and programs may import it, and load it only for a peer whose dialect is named.
"""
