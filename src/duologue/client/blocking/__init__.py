"""The client's API without an event loop, for scripts and notebooks.

It runs the asynchronous client in a thread of its own. `duologue.sync` exports it; nothing else imports this package.
"""
