"""Records of trials: their files, the run directory that has one result for each trial, and the kinds of outcomes.

What a record means for a score does not belong here. The other packages of `evals` import it.
"""
