"""Code as users write it, for mypy and pyright in strict mode; `make types` checks it, nothing here runs.

What must type-check stands as it is, with `assert_type` for what must be inferred. What must not type-check carries a
`type: ignore` with its code: mypy reports the comment if the line is accepted.
"""
