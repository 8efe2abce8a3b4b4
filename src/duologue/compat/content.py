"""Content blocks and tool calls, wherever they stand."""

from __future__ import annotations

from duologue.compat.json_access import (
    JsonObject,
    as_object,
    bring_back,
    keep,
    move,
    objects,
    replace,
    took_place,
    word,
)
from duologue.compat.message import OpenMessage
from duologue.compat.methods import SESSION_PROMPT, SESSION_REQUEST_PERMISSION, SESSION_UPDATE
from duologue.compat.rules import Rule, params, results

__all__ = ["RULES", "update_of"]

BLOCK_TYPES = frozenset({"text", "image", "audio", "resource", "resource_link"})
TOOL_TAGS = frozenset({"tool_call", "tool_call_update"})

STATUS_TODAY = {"running": "in_progress"}
STATUS_OF_SEED = {"in_progress": "running"}

UNDEFINED_MEMBERS = {"diff": ("mimeType",), "terminal": ("command", "exitCode")}
"""What seed 004 adds to the content of tool calls, by its type."""


def update_of(letter: OpenMessage) -> JsonObject:
    """The update in a `session/update`."""
    return as_object(letter.fields.get("update")) if letter.method == SESSION_UPDATE else {}


def _tool_call(letter: OpenMessage) -> JsonObject:
    """The tool call that is reported, or that permission is asked for."""
    if letter.method == SESSION_UPDATE:
        update = update_of(letter)
        return update if word(update, "sessionUpdate") in TOOL_TAGS else {}
    return as_object(letter.fields.get("toolCall"))


def _tool_content(letter: OpenMessage) -> list[JsonObject]:
    return objects(_tool_call(letter).get("content"))


def _blocks(letter: OpenMessage) -> list[JsonObject]:
    """Every content block of a prompt, an answer, an update or a tool call, wrapped or not."""
    fields, update = letter.fields, update_of(letter)
    found = [as_object(update.get("content"))]
    for holder, key in (
        (fields, "prompt"),
        (fields, "content"),
        (update, "content"),
        (as_object(fields.get("toolCall")), "content"),
    ):
        found += objects(holder.get(key))
    return [as_object(item.get("content")) if item.get("type") == "content" else item for item in found]


def read_image(letter: OpenMessage) -> bool:
    """Data and type lie one level deeper in the seed."""
    return took_place(_lift_source(block) for block in _blocks(letter))


def _lift_source(block: JsonObject) -> bool:
    source = as_object(block.get("source"))
    if block.get("type") != "image" or source.get("type") != "base64" or "data" not in source or "data" in block:
        return False
    move(source, "data", block, "data")
    move(source, "mediaType", block, "mimeType")
    del block["source"]
    return True


def write_image(letter: OpenMessage) -> bool:
    """The way back."""
    return took_place(_lower_source(block) for block in _blocks(letter))


def _lower_source(block: JsonObject) -> bool:
    if block.get("type") != "image" or "data" not in block or "source" in block:
        return False
    source: JsonObject = {"type": "base64"}
    move(block, "mimeType", source, "mediaType")
    move(block, "data", source, "data")
    block["source"] = source
    return True


def read_status(letter: OpenMessage) -> bool:
    """`running` would be dropped as unknown, and the tool call would seem to wait."""
    return replace(_tool_call(letter), "status", STATUS_TODAY)


def write_status(letter: OpenMessage) -> bool:
    """The way back."""
    return replace(_tool_call(letter), "status", STATUS_OF_SEED)


def write_update(letter: OpenMessage) -> bool:
    """Every change is told as a whole tool call: with what was said of it before, as far as that is remembered."""
    update = update_of(letter)
    if update.get("sessionUpdate") != "tool_call_update":
        return False
    call_id = word(update, "toolCallId")
    known = letter.known.tool_calls.get((str(letter.fields.get("sessionId")), call_id), {})
    changed = {key: value for key, value in update.items() if value is not None}
    update.clear()
    update.update({"title": call_id, **known, **changed, "sessionUpdate": "tool_call"})
    return True


def read_location(letter: OpenMessage) -> bool:
    """One place becomes a list of one."""
    call = _tool_call(letter)
    if "locations" in call or not isinstance(call.get("location"), dict):
        return False
    call["locations"] = [call.pop("location")]
    return True


def write_location(letter: OpenMessage) -> bool:
    """The first place; where there are more, the list stays beside it."""
    call = _tool_call(letter)
    places = objects(call.get("locations"))
    if "location" in call or not places:
        return False
    call["location"] = places[0]
    if len(places) == 1:
        del call["locations"]
    return True


def read_tool_content(letter: OpenMessage) -> bool:
    """Wrap the blocks that stand bare."""
    bare = [item for item in _tool_content(letter) if word(item, "type") in BLOCK_TYPES]
    for item in bare:
        block = dict(item)
        item.clear()
        item.update(type="content", content=block)
    return bool(bare)


def write_tool_content(letter: OpenMessage) -> bool:
    """Unwrap them, unless the wrapping says something itself."""
    wrapped = [item for item in _tool_content(letter) if item.keys() == {"type", "content"}]
    return took_place(_unwrap(item) for item in wrapped)


def _unwrap(item: JsonObject) -> bool:
    block = as_object(item["content"])
    if item["type"] != "content" or word(block, "type") not in BLOCK_TYPES:
        return False
    item.clear()
    item.update(block)
    return True


def read_undefined_members(letter: OpenMessage) -> bool:
    """What today's schema does not define is kept in `_meta`."""
    return took_place(_put_away(item) for item in _tool_content(letter))


def _put_away(item: JsonObject) -> bool:
    names = UNDEFINED_MEMBERS.get(word(item, "type"), ())
    extra = {name: item.pop(name) for name in names if name in item}
    if extra:
        keep(item, **extra)
    return bool(extra)


def write_undefined_members(letter: OpenMessage) -> bool:
    """The way back."""
    return took_place(_bring_back(item) for item in _tool_content(letter))


def _bring_back(item: JsonObject) -> bool:
    extra = bring_back(item)
    item.update({name: value for name, value in extra.items() if name not in item})
    return bool(extra)


TOOL_CALLS = params(SESSION_UPDATE, SESSION_REQUEST_PERMISSION)

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
        params(SESSION_UPDATE),
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
        (*params(SESSION_PROMPT), *TOOL_CALLS, *results(SESSION_PROMPT)),
        read_image,
        write_image,
    ),
)
