"""Engines, which carry out trials: in this process, or with the workers of a Dask or Ray cluster.

What a trial does belongs to `run`, and so does which trials are run, in which order and how often. The scheduler of
`run` and the command line import it.
"""
