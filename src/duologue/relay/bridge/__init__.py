"""Between the versions of the protocol: an editor that speaks one of them and an agent that speaks another.

Everything passes as meaning, so neither end notices; what only one of them can express is said in other words, or said
to be missing. Nobody but programs imports from here.
"""
