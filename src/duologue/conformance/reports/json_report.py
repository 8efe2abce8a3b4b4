"""Write the report of a check as JSON."""

from __future__ import annotations

import msgspec

from duologue.conformance.reports.document import ReportDocument


def to_json(document: ReportDocument) -> str:
    """Return the report as JSON, indented."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
