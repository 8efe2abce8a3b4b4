"""Turn the official JSON schemas into the classes of `duologue.schema.v1` and `v2`.

official/       the four schemas as published, untouched
shapes.py       what a schema says, as plain data
facts.py        what a schema does not say, or says only in prose: names, patches, order
parse.py        JSON schema -> shapes; types.py reads the smaller pieces
render.py       shapes -> classes; docstrings.py says what they say of themselves
render_tables.py    shapes -> method constants, the table of what is stable, the package's front
__main__.py     `python -m scripts.schema [--check]`
"""
