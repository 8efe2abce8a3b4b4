"""Serve agents made with other libraries; each module needs the extra of its library.

What every agent needs belongs to `agent`. Only programs import this package.
"""
