"""The meaning of recordings: which request a response answers, what does not match the schema, selection and figures.

How recordings are written does not belong here. Programs import it.
"""
