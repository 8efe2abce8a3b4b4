"""Rules for permission requests and their answers.

They fail closed: an answer in another form counts only if it names exactly one option, and that option was offered
once; everything else is `cancelled`. No rewrite turns a rejection into a permission.
"""

from __future__ import annotations

from functools import partial

from duologue.compat.json_access import as_object, objects, renaming, replacing, string
from duologue.compat.message import OpenMessage
from duologue.compat.rules import Rule, each, params, results
from duologue.schema import v1
from duologue.schema.base import JsonObject, JsonValue


def _options(message: OpenMessage) -> list[JsonObject]:
    return objects(message.fields.get("options"))


def read_title(message: OpenMessage) -> bool:
    """Make the title that of a tool call of its own, with the description as its content."""
    if not make_tool_call(message, "title"):
        return False
    description = message.fields.pop("description", None)
    if isinstance(description, str):
        block = {"type": "text", "text": description}
        message.fields["toolCall"]["content"] = [{"type": "content", "content": block}]
    return True


def make_tool_call(message: OpenMessage, key: str) -> bool:
    """Make this member the title of a tool call of its own."""
    fields = message.fields
    if "toolCall" in fields or not isinstance(fields.get(key), str):
        return False
    fields["toolCall"] = {"toolCallId": f"permission-{message.id}", "title": fields.pop(key)}
    return True


def write_title(message: OpenMessage) -> bool:
    """Write the tool call's title as the title, and the text in its content as the description."""
    if not write_question(message, "title"):
        return False
    content = objects(as_object(message.fields["toolCall"]).get("content"))
    blocks = [as_object(item.get("content")) if item.get("type") == "content" else item for item in content]
    texts = [block["text"] for block in blocks if block.get("type") == "text" and string(block, "text")]
    if texts:
        message.fields.setdefault("description", "\n\n".join(texts))
    return True


def write_question(message: OpenMessage, key: str) -> bool:
    """Write the tool call's title as this member."""
    call = as_object(message.fields.get("toolCall"))
    if not call or key in message.fields:
        return False
    message.fields[key] = call.get("title") or f"Allow tool call {call.get('toolCallId')}?"
    return True


def read_answer(message: OpenMessage) -> bool:
    """Replace any other form by the option it names, or by "cancelled"."""
    fields = message.fields
    if isinstance(fields.get("outcome"), dict) and "selectedOptionId" not in fields:
        return False
    chosen = _named_option(fields)
    is_offered = chosen != "cancelled" and chosen in [option for option, _ in _unique_options(message)]
    rest = {key: value for key, value in fields.items() if key not in ("outcome", "selectedOptionId")}
    outcome = {"outcome": "selected", "optionId": chosen} if is_offered else {"outcome": "cancelled"}
    message.body = {"outcome": outcome, **rest}
    return True


def _named_option(answer: JsonObject) -> JsonValue:
    """Return the option that the answer names in all its forms; None if they differ."""
    named: list[JsonValue] = []
    if "selectedOptionId" in answer:
        named.append(answer["selectedOptionId"])
    if "outcome" in answer:
        outcome: JsonValue = answer["outcome"]
        is_selection = isinstance(outcome, dict) and as_object(outcome).get("outcome") == "selected"
        named.append(as_object(outcome).get("optionId") if is_selection else outcome)
    return named[0] if named and named[0] == named[-1] else None


def _unique_options(message: OpenMessage) -> list[tuple[str, str]]:
    """Return the options that were offered with a unique id."""
    offered = message.request.options
    ids = [option for option, _ in offered]
    return [(option, kind) for option, kind in offered if ids.count(option) == 1]


def write_answer(message: OpenMessage) -> bool:
    """Write the chosen option; "cancelled", which the seed lacks, becomes a single rejection, or null."""
    outcome = as_object(message.fields.get("outcome"))
    if not outcome:
        return False
    rejections = [option for option, kind in _unique_options(message) if kind == "reject_once"]
    chosen = outcome.get("optionId") if outcome.get("outcome") == "selected" else next(iter(rejections), None)
    rest = {key: value for key, value in message.fields.items() if key != "outcome"}
    message.body = {"selectedOptionId": chosen, **rest}
    return True


REQUESTS = params(v1.SESSION_REQUEST_PERMISSION)

RULES = (
    Rule(
        "permission-label",
        ("seed-003", "seed-004"),
        "permission option with `label`",
        "`name`",
        REQUESTS,
        each(_options, renaming(label="name")),
        each(_options, renaming(name="label")),
    ),
    Rule(
        "permission-kind",
        ("seed-003",),
        "permission kind `deny`",
        "`reject_once`",
        REQUESTS,
        each(_options, replacing("kind", {"deny": "reject_once"})),
        # The option's id still tells both kinds of rejection apart.
        each(_options, replacing("kind", {"reject_once": "deny", "reject_always": "deny"})),
    ),
    Rule(
        "permission-message",
        ("seed-003",),
        "permission requests with `message`",
        "`toolCall` with that title and an id of its own",
        REQUESTS,
        partial(make_tool_call, key="message"),
        partial(write_question, key="message"),
    ),
    Rule(
        "permission-title",
        ("seed-004",),
        "permission requests with `title` and `description`",
        "`toolCall` with that title, the description as its content and an id of its own",
        REQUESTS,
        read_title,
        write_title,
    ),
    Rule(
        "permission-answer",
        ("seed-004", "transport draft"),
        "`selectedOptionId`, or `outcome` as a string",
        "`outcome: {outcome: selected, optionId}` if that option was offered, else `cancelled`",
        results(v1.SESSION_REQUEST_PERMISSION),
        read_answer,
        write_answer,
    ),
)
