"""Peers that speak the dialects of older documents, made to look like today's v1: one frame in, frames out.

Rewritings of raw JSON belong here, each a named rule with a golden vector; typed shapes, sessions and I/O do not.
Relays and programs may import it; nothing in the core needs it, and it is off unless asked for.
"""
