"""Running trials: isolated directories, the conversation with an agent, its limits, retries and order.

Graders and statistics do not belong here. The command line and programs import it.
"""
