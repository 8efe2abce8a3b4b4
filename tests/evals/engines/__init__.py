"""Trials on clusters: real schedulers and workers on loopback, which are killed."""
