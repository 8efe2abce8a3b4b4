"""A recording for each rule that keeps it, and one with a single change that breaks it."""
