"""The meaning of recordings: which request a response answers, what breaks the schema, selection, figures, replay.

How recordings are written does not belong here. Programs import it.
"""
