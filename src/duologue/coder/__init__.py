"""The coding agent of `duologue code`: tools and context of pydantic-ai-harness, in the editor, with its permissions.

Only what joins that library and an editor belongs here: models by name, modes, permissions, undo, what is shown. Tools
are the library's; what every agent of pydantic-ai needs is in `integrations`. The command line imports it. Needs the
extra `coder`.
"""
