"""The report as one HTML page: without scripts, without other files, and with every text of an agent as text.

What the numbers are does not belong here. Pages are read by people, and the command line imports it.
"""
