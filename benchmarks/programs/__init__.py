"""The same agent and the same client on each library, as small as that library allows.

`wire`, `usage` and `script` are all they share; these need the standard library only, because each program runs in an
environment that holds nothing but its own library.
"""
