"""Files and commands of this machine: files confined to open directories, commands stopped with all they started.

It knows paths, descriptors and processes, but not sessions or capabilities. Policies (who may write where, how many
commands at once, what to ask the user) belong to the agent's and the client's side, which import it.
"""
