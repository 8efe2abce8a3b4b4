"""What ACP says things look like: typed structs, method constants, and the reader rules of the official schemas.

Envelopes, I/O, tasks and clocks do not belong here. `runtime`, `dialects` and everything above may import it.
"""
