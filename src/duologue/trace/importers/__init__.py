"""Importers: frame logs of other programs as frames of a recording; one module for each format, all in `formats`.

Writing a recording does not belong here. The command `duologue trace import` imports it.
"""
