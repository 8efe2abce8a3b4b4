"""Suites: cases in TOML, JSON lines or directories, read and checked as a whole before anything starts.

Running an agent does not belong here. The other packages of `evals` import it.
"""
