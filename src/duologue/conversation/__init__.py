"""What the two parties mean, free of versions: content, updates, and the transcript they fold into.

Wire names, envelopes and I/O do not belong here. `dialects`, `store`, both sides and everything above may import it.
"""
