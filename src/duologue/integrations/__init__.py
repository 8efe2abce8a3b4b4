"""Agents made with other libraries, served by one call each.

What every agent needs belongs to `agent`; each module here needs the extra of its library. Programs import it.
"""
