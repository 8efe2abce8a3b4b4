"""This machine's files and commands: confined to pinned directories, owned from start to end.

Knows paths, descriptors and processes, and nothing of sessions, capabilities or who is asking. Policies (who may write
where, how many commands at once, what to ask the user) belong to the two sides above. Imported by both of them.
"""
