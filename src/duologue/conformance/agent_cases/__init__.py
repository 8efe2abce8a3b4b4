"""Cases that drive an agent, one module for each subject.

Each case provokes the agent with raw messages and judges some rules by the answers. `table` lists all of them.
"""
