"""Sessions in an SQLite database: schema, queries, locks and the store itself.

The interface and the record format are in `duologue.store`. Code that chooses a store imports this package.
"""
