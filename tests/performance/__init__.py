"""Budgets for the cost of the public API, in counted calls."""
