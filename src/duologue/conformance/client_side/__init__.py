"""The check of a client: how it is started, the endpoint that it connects to, and the agent that is played for it.

The cases are in `client_cases`, and what both sides of a check share is in the package above. Only the cases and the
command line import it.
"""
