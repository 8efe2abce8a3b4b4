"""Meaning to wire and back, one part per version of the protocol.

What an agent does or a user sees does not belong here, only how it is said. The two sides may import it.
"""
