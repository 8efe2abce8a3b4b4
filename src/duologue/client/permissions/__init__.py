"""Decide what an agent may do: rules, patterns, remembered decisions, prompts and the audit log.

`policy` holds the public `Permissions`; the other modules are its parts. The client's request handler, workspace and
terminals import this package.
"""
