"""Recordings: every frame of a conversation in a file, secrets removed while it is written.

What frames mean does not belong here. The client's side and programs import it.
"""
