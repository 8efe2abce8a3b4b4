"""The inspector page: recordings in a browser, as one file or from a local server; and as tools for agents.

What frames mean is decided in `duologue.trace`; the page, built from `web/`, only shows it. Nothing here is public.
"""
