"""Trials of runs for other programs: JUnit XML, CSV and JSON lines.

Intervals and comparisons do not belong here. The command line imports it.
"""
