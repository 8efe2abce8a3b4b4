"""Run an `Agent`: on stdio, on a network server, from a plain function, separately for each caller.

The agent, its sessions and its turns are in `duologue.agent`. `duologue.agent.agent` and applications import this
package.
"""
