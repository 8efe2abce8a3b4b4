"""The conversation of a recording as a document: Markdown, Mermaid or JSON.

One module for each format, with a function that writes the items of a conversation to a stream as they come.
`cli.commands.trace.export` names the formats.
"""
