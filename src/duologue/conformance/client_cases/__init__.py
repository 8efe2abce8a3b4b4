"""Cases that play an agent for a client, one module for each subject.

Each case sends the client raw messages and judges some rules by the answers. `table` lists all of them.
"""
