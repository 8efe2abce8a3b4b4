"""Tests of `duologue check`: that it is right, and that it is sharp."""
