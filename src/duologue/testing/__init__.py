"""Tools for testing agents and clients: the pytest plugin, and scripted peers that play a scenario.

Scenarios speak raw frames, so that they can also send what no correct implementation would. The built-in agent and both
sides do not import this package; programs and tests do.
"""
