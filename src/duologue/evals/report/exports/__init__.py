"""Trials of runs for other programs: JUnit XML, CSV, JSON lines, logs of Inspect, ATIF, predictions of SWE-bench.

Intervals and comparisons do not belong here. The command line imports it.
"""
