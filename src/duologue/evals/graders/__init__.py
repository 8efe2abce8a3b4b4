"""Graders: functions, programs, assertions and predicates that read a record and return a grade.

They start no agent. The runner and the command line import it.
"""
