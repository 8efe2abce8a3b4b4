"""Reports of finished runs: what each agent achieved, with intervals, comparisons, thresholds and documents.

Nothing here starts an agent. Only the records of runs are read. Programs and the command line import it.
"""
