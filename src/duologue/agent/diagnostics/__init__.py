"""Find the mistakes of an agent's author before its users do.

Handlers are checked when they are registered, values when they are used. A method that was called without `await` fails
its turn. Nothing here runs on the path of a correct agent's updates.
"""
