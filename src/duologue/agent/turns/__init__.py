"""The turns of a session: their queue, the text that is sent into the running one, and its open compactions.

What a handler may do in a turn is in `duologue.agent.turn`. Only `duologue.agent` imports this package.
"""
