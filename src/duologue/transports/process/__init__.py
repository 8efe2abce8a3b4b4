"""Run a child process as a transport: start it, watch it, read its stderr, and end it with all its descendants.

The line stream over its pipes is in `transports.stdio`. The client, relays and `local` import this package.
"""
