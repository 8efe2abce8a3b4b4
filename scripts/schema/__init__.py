"""Turn the official JSON schemas into the classes of `duologue.schema.v1` and `v2`.

official/       the four schemas as published, untouched
shapes.py       what a schema says, as plain data
facts.py        what a schema does not say, or says only in prose: names, patches, order
parse.py        JSON schema -> shapes
render.py       shapes -> Python text
__main__.py     `python -m scripts.schema [--check]`
"""
