"""Benchmarks of duologue against the official SDKs and against programs that only echo bytes.

`python -m benchmarks` starts every program of `programs/` as real processes that talk over real pipes, in turns, and
prints ratios. Absolute numbers of a shared machine mean little; ratios of one run mean something.
"""
