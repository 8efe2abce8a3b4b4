"""The conversation independent of protocol versions: content, updates, and the transcript they build.

Wire names, envelopes and I/O do not belong here. `protocol`, `store`, both sides and everything above may import it.
"""
