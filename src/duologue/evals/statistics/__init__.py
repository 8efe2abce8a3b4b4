"""Statistics of trials: pass@k, intervals, paired comparisons, power and agreement.

Modules that need numpy and scipy say so when they are imported; `passes` needs neither. Reports import it.
"""
