"""Dialects of older documents, rewritten to today's version 1 and back: one frame in, frames out.

Rewrites of raw JSON belong here, each a named rule with a golden vector; typed messages, sessions and I/O do not.
Agents, clients, relays and programs may import it, and load it only for a peer whose dialect is named.
"""
