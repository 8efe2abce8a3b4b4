"""The daemon that keeps agents started."""
