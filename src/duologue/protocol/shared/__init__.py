"""The parts of the protocol that are the same in every version, written once.

Classes and functions are given the schema package of one version. Nothing here imports `schema.v1` or `schema.v2`;
`protocol.v1`, `protocol.v2` and `protocol.interfaces` import it.
"""
