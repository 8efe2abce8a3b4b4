"""Rules about paths: all of them are absolute."""

from __future__ import annotations

import re
from collections.abc import Iterator

from duologue.schema.base import JsonObject
from duologue.schema.lenient_errors import is_object
from duologue.trace.frames import TracedFrame
from duologue.trace.json_values import items, member, objects, text
from duologue.trace.rules.base import ProtocolRule, Violation, sender
from duologue.trace.wire_state import OPENING, WireState

_ABSOLUTE = re.compile(r"/|[A-Za-z]:[\\/]|\\\\")
"""How an absolute path begins, on any system."""
_UPDATES = ("tool_call", "tool_call_update", "tool_call_content_chunk", "terminal_update")


class SetupPaths(ProtocolRule):
    """Sessions are opened with absolute paths."""

    numbers = (44, 53, 151)
    methods = frozenset(OPENING)

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report relative directories and commands."""
        if frame.kind != "request" or frame.entry.redacted:
            return
        if isinstance(cwd := wire.body.get("cwd"), str):
            self.observe("client", 44)
            yield from _relative(44, frame, cwd, "$.params.cwd")
        for index, directory in enumerate(items(wire.body, "additionalDirectories")):
            if isinstance(directory, str):
                yield from _relative(53, frame, directory, f"$.params.additionalDirectories[{index}]")
        for index, server in objects(wire.body, "mcpServers"):
            if text(server, "type") in ("", "stdio") and isinstance(command := server.get("command"), str):
                self.observe("client", 151)
                yield from _relative(151, frame, command, f"$.params.mcpServers[{index}].command")


class AbsolutePaths(ProtocolRule):
    """Files, locations, diffs and terminals have absolute paths."""

    numbers = (45,)
    methods = frozenset(
        {"fs/read_text_file", "fs/write_text_file", "terminal/create", "session/request_permission", "session/list",
         *_UPDATES}
    )  # fmt: skip

    def check(self, frame: TracedFrame, wire: WireState) -> Iterator[Violation]:
        """Report each relative path."""
        if frame.entry.redacted or frame.kind == "error":
            return
        for path, at in _paths(frame, wire):
            self.observe(sender(frame), 45)
            yield from _relative(45, frame, path, at)


def _paths(frame: TracedFrame, wire: WireState) -> Iterator[tuple[str, str]]:
    """Yield the paths in a message, and where each is."""
    if frame.update:
        yield from _paths_of_tool(wire.update, "$.params.update")
    elif frame.kind == "request":
        for name in ("path", "cwd"):
            if isinstance(path := wire.body.get(name), str):
                yield path, f"$.params.{name}"
        for names in (("toolCall",), ("subject", "toolCall"), ("subject",)):
            tool = member(wire.body, *names)
            if is_object(tool):
                yield from _paths_of_tool(tool, f"$.params.{'.'.join(names)}")
    elif frame.method == "session/list":
        for index, session in objects(wire.body, "sessions"):
            if isinstance(path := session.get("cwd"), str):
                yield path, f"$.result.sessions[{index}].cwd"


def _paths_of_tool(tool: JsonObject, at: str) -> Iterator[tuple[str, str]]:
    if isinstance(path := tool.get("cwd"), str):
        yield path, f"{at}.cwd"
    for index, location in objects(tool, "locations"):
        if isinstance(path := location.get("path"), str):
            yield path, f"{at}.locations[{index}].path"
    contents = [(f"{at}.content[{index}]", content) for index, content in objects(tool, "content")]
    if is_object(chunk := tool.get("content")):
        contents = [(f"{at}.content", chunk)]
    for where, content in contents:
        if text(content, "type") == "diff":
            if isinstance(path := content.get("path"), str):
                yield path, f"{where}.path"
            for index, change in objects(content, "changes"):
                for name in ("path", "oldPath"):
                    if isinstance(path := change.get(name), str):
                        yield path, f"{where}.changes[{index}].{name}"


def _relative(rule: int, frame: TracedFrame, path: str, at: str) -> Iterator[Violation]:
    if not _ABSOLUTE.match(path):
        yield Violation(
            rule, f"{frame.update or frame.method}: the path {path[:200]!r} is not absolute", (frame.number,), at
        )


RULES: tuple[type[ProtocolRule], ...] = (SetupPaths, AbsolutePaths)
