"""Rules for content blocks and tool calls, wherever they occur."""

from __future__ import annotations

from duologue.compat.json_access import (
    any_changed,
    as_object,
    keep_in_meta,
    move,
    objects,
    replace,
    string,
    take_from_meta,
)
from duologue.compat.message import OpenMessage
from duologue.compat.rules import Rule, params, results
from duologue.schema import v1
from duologue.schema.base import JsonObject

BLOCK_TYPES = frozenset({"text", "image", "audio", "resource", "resource_link"})
TOOL_TAGS = frozenset({"tool_call", "tool_call_update"})

STATUS_TODAY = {"running": "in_progress"}
STATUS_OF_SEED = {"in_progress": "running"}

UNDEFINED_MEMBERS = {"diff": ("mimeType",), "terminal": ("command", "exitCode")}
"""The members that seed 004 adds to the content of tool calls, by its type."""


def update_of(message: OpenMessage) -> JsonObject:
    """Return the update in a `session/update`."""
    return as_object(message.fields.get("update")) if message.method == v1.SESSION_UPDATE.name else {}


def _tool_call(message: OpenMessage) -> JsonObject:
    """Return the tool call that is reported, or that a permission request is about."""
    if message.method == v1.SESSION_UPDATE.name:
        update = update_of(message)
        return update if string(update, "sessionUpdate") in TOOL_TAGS else {}
    return as_object(message.fields.get("toolCall"))


def _tool_content(message: OpenMessage) -> list[JsonObject]:
    return objects(_tool_call(message).get("content"))


def _blocks(message: OpenMessage) -> list[JsonObject]:
    """Return every content block of a prompt, an answer, an update or a tool call, wrapped or not."""
    fields, update = message.fields, update_of(message)
    found = [as_object(update.get("content"))]
    for holder, key in (
        (fields, "prompt"),
        (fields, "content"),
        (update, "content"),
        (as_object(fields.get("toolCall")), "content"),
    ):
        found += objects(holder.get(key))
    return [as_object(item.get("content")) if item.get("type") == "content" else item for item in found]


def read_image(message: OpenMessage) -> bool:
    """Move data and type of images up from `source`."""
    return any_changed(_lift_source(block) for block in _blocks(message))


def _lift_source(block: JsonObject) -> bool:
    source = as_object(block.get("source"))
    if block.get("type") != "image" or source.get("type") != "base64" or "data" not in source or "data" in block:
        return False
    move(source, "data", block, "data")
    move(source, "mediaType", block, "mimeType")
    del block["source"]
    return True


def write_image(message: OpenMessage) -> bool:
    """Move data and type of images down into `source`."""
    return any_changed(_lower_source(block) for block in _blocks(message))


def _lower_source(block: JsonObject) -> bool:
    if block.get("type") != "image" or "data" not in block or "source" in block:
        return False
    source: JsonObject = {"type": "base64"}
    move(block, "mimeType", source, "mediaType")
    move(block, "data", source, "data")
    block["source"] = source
    return True


def read_status(message: OpenMessage) -> bool:
    """Replace `running`, which would be dropped as unknown, so that the tool call would seem to wait."""
    return replace(_tool_call(message), "status", STATUS_TODAY)


def write_status(message: OpenMessage) -> bool:
    """Replace `in_progress` by `running`."""
    return replace(_tool_call(message), "status", STATUS_OF_SEED)


def write_update(message: OpenMessage) -> bool:
    """Write every change as a whole tool call, with what is remembered of it."""
    update = update_of(message)
    if update.get("sessionUpdate") != "tool_call_update":
        return False
    call_id = string(update, "toolCallId")
    known = message.known.tool_calls.get((str(message.fields.get("sessionId")), call_id), {})
    changed = {key: value for key, value in update.items() if value is not None}
    update.clear()
    update.update({"title": call_id, **known, **changed, "sessionUpdate": "tool_call"})
    return True


def read_location(message: OpenMessage) -> bool:
    """Replace a location by a list of one."""
    call = _tool_call(message)
    if "locations" in call or not isinstance(call.get("location"), dict):
        return False
    call["locations"] = [call.pop("location")]
    return True


def write_location(message: OpenMessage) -> bool:
    """Write the first location; if there are more, the list stays too."""
    call = _tool_call(message)
    targets = objects(call.get("locations"))
    if "location" in call or not targets:
        return False
    call["location"] = targets[0]
    if len(targets) == 1:
        del call["locations"]
    return True


def read_tool_content(message: OpenMessage) -> bool:
    """Wrap blocks that are not wrapped in `content`."""
    bare = [item for item in _tool_content(message) if string(item, "type") in BLOCK_TYPES]
    for item in bare:
        block = dict(item)
        item.clear()
        item.update(type="content", content=block)
    return bool(bare)


def write_tool_content(message: OpenMessage) -> bool:
    """Unwrap blocks, unless the wrapper has members of its own."""
    wrapped = [item for item in _tool_content(message) if item.keys() == {"type", "content"}]
    return any_changed(_unwrap(item) for item in wrapped)


def _unwrap(item: JsonObject) -> bool:
    block = as_object(item["content"])
    if item["type"] != "content" or string(block, "type") not in BLOCK_TYPES:
        return False
    item.clear()
    item.update(block)
    return True


def read_undefined_members(message: OpenMessage) -> bool:
    """Move members that today's schema does not define to `_meta`."""
    return any_changed(_move_to_meta(item) for item in _tool_content(message))


def _move_to_meta(item: JsonObject) -> bool:
    names = UNDEFINED_MEMBERS.get(string(item, "type"), ())
    extra = {name: item.pop(name) for name in names if name in item}
    if extra:
        keep_in_meta(item, **extra)
    return bool(extra)


def write_undefined_members(message: OpenMessage) -> bool:
    """Restore the members from `_meta`."""
    return any_changed(_restore(item) for item in _tool_content(message))


def _restore(item: JsonObject) -> bool:
    extra = take_from_meta(item)
    item.update({name: value for name, value in extra.items() if name not in item})
    return bool(extra)


TOOL_CALLS = params(v1.SESSION_UPDATE, v1.SESSION_REQUEST_PERMISSION)

RULES = (
    Rule(
        "tool-status",
        ("seed-003",),
        "tool status `running`",
        "`in_progress`",
        TOOL_CALLS,
        read_status,
        write_status,
    ),
    Rule(
        "tool-update",
        ("seed-003",),
        "every change is a `tool_call`",
        "`tool_call_update`",
        params(v1.SESSION_UPDATE),
        write=write_update,
    ),
    Rule(
        "tool-location",
        ("seed-004",),
        "tool call with `location`, an object",
        "`locations`, a list",
        TOOL_CALLS,
        read_location,
        write_location,
    ),
    Rule(
        "tool-content",
        ("seed-001", "seed-004"),
        "a bare content block in a tool call's content",
        '`{"type": "content", "content": …}` around it',
        TOOL_CALLS,
        read_tool_content,
        write_tool_content,
    ),
    Rule(
        "tool-content-members",
        ("seed-004",),
        "`mimeType` on a diff, `command` and `exitCode` on a terminal",
        'kept in `_meta["seed-004"]`',
        TOOL_CALLS,
        read_undefined_members,
        write_undefined_members,
    ),
    Rule(
        "image-source",
        ("seed-003",),
        "image with `source: {type, mediaType, data}`",
        "image with `mimeType` and `data`",
        (*params(v1.SESSION_PROMPT), *TOOL_CALLS, *results(v1.SESSION_PROMPT)),
        read_image,
        write_image,
    ),
)
