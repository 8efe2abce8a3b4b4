"""The messages of ACP: typed structs, method constants, and the decoding rules of the official schemas.

Envelopes, I/O, tasks and clocks do not belong here. `runtime`, `protocol` and everything above may import it.
"""
