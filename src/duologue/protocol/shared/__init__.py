"""What the dialects of all versions have in common: the requests that look the same on every wire.

Each class is given the package of one version's shapes and is completed by that version. It imports `schema.base`,
`runtime` and the contract, and no version; `dialects.v1` and `dialects.v2` import it.
"""
