"""Permission: what is asked, and what the answer allows.

Fails closed. An answer in another form counts only if it names exactly one option, and that option was offered once;
everything else is `cancelled`. No rewriting turns a rejection into a permission.
"""

from __future__ import annotations

from duologue.compat.json_access import JsonObject, JsonValue, as_object, objects, rename, replace, took_place, word
from duologue.compat.message import OpenMessage
from duologue.compat.methods import SESSION_REQUEST_PERMISSION
from duologue.compat.rules import Rule, params, results

__all__ = ["RULES"]

KIND_TODAY = {"deny": "reject_once"}
KIND_OF_SEED = {"reject_once": "deny", "reject_always": "deny"}


def _options(letter: OpenMessage) -> list[JsonObject]:
    return objects(letter.fields.get("options"))


def read_label(letter: OpenMessage) -> bool:
    """What the user reads on the button."""
    return took_place(rename(option, "label", "name") for option in _options(letter))


def write_label(letter: OpenMessage) -> bool:
    """The way back."""
    return took_place(rename(option, "name", "label") for option in _options(letter))


def read_kind(letter: OpenMessage) -> bool:
    """`deny` is no kind of today."""
    return took_place(replace(option, "kind", KIND_TODAY) for option in _options(letter))


def write_kind(letter: OpenMessage) -> bool:
    """The seed knows one kind of no; the option's id still tells which."""
    return took_place(replace(option, "kind", KIND_OF_SEED) for option in _options(letter))


def read_message(letter: OpenMessage) -> bool:
    """The question becomes the title of a tool call of its own."""
    return _ask_about(letter, "message")


def read_title(letter: OpenMessage) -> bool:
    """The same, with a description to read before answering."""
    if not _ask_about(letter, "title"):
        return False
    description = letter.fields.pop("description", None)
    if isinstance(description, str):
        block = {"type": "text", "text": description}
        letter.fields["toolCall"]["content"] = [{"type": "content", "content": block}]
    return True


def _ask_about(letter: OpenMessage, key: str) -> bool:
    fields = letter.fields
    if "toolCall" in fields or not isinstance(fields.get(key), str):
        return False
    fields["toolCall"] = {"toolCallId": f"permission-{letter.id}", "title": fields.pop(key)}
    return True


def write_message(letter: OpenMessage) -> bool:
    """The tool call's title as the question."""
    return _ask_in_words(letter, "message")


def write_title(letter: OpenMessage) -> bool:
    """The tool call's title as the question, and the text in its content as the description."""
    if not _ask_in_words(letter, "title"):
        return False
    content = objects(as_object(letter.fields["toolCall"]).get("content"))
    blocks = [as_object(item.get("content")) if item.get("type") == "content" else item for item in content]
    texts = [block["text"] for block in blocks if block.get("type") == "text" and word(block, "text")]
    if texts:
        letter.fields.setdefault("description", "\n\n".join(texts))
    return True


def _ask_in_words(letter: OpenMessage, key: str) -> bool:
    call = as_object(letter.fields.get("toolCall"))
    if not call or key in letter.fields:
        return False
    letter.fields[key] = call.get("title") or f"Allow tool call {call.get('toolCallId')}?"
    return True


def read_answer(letter: OpenMessage) -> bool:
    """Anything but today's form: the option it names, or cancelled."""
    fields = letter.fields
    if isinstance(fields.get("outcome"), dict) and "selectedOptionId" not in fields:
        return False
    chosen = _named_option(fields)
    is_clear = chosen != "cancelled" and chosen in [option for option, _ in _clear_options(letter)]
    rest = {key: value for key, value in fields.items() if key not in ("outcome", "selectedOptionId")}
    outcome = {"outcome": "selected", "optionId": chosen} if is_clear else {"outcome": "cancelled"}
    letter.body = {"outcome": outcome, **rest}
    return True


def _named_option(answer: JsonObject) -> JsonValue:
    """The one option that the answer names in all its forms; none if they differ."""
    named: list[JsonValue] = []
    if "selectedOptionId" in answer:
        named.append(answer["selectedOptionId"])
    if "outcome" in answer:
        outcome: JsonValue = answer["outcome"]
        is_selection = isinstance(outcome, dict) and as_object(outcome).get("outcome") == "selected"
        named.append(as_object(outcome).get("optionId") if is_selection else outcome)
    return named[0] if named and named[0] == named[-1] else None


def _clear_options(letter: OpenMessage) -> list[tuple[str, str]]:
    """The options that were offered under an id of their own."""
    offered = letter.request.options
    ids = [option for option, _ in offered]
    return [(option, kind) for option, kind in offered if ids.count(option) == 1]


def write_answer(letter: OpenMessage) -> bool:
    """The chosen option; cancelled has no word there, so it is a rejection for once, or nothing."""
    outcome = as_object(letter.fields.get("outcome"))
    if not outcome:
        return False
    rejections = [option for option, kind in _clear_options(letter) if kind == "reject_once"]
    chosen = outcome.get("optionId") if outcome.get("outcome") == "selected" else next(iter(rejections), None)
    rest = {key: value for key, value in letter.fields.items() if key != "outcome"}
    letter.body = {"selectedOptionId": chosen, **rest}
    return True


ASKING = params(SESSION_REQUEST_PERMISSION)

RULES = (
    Rule(
        "permission-label",
        ("seed-003", "seed-004"),
        "permission option with `label`",
        "`name`",
        ASKING,
        read_label,
        write_label,
    ),
    Rule(
        "permission-kind",
        ("seed-003",),
        "permission kind `deny`",
        "`reject_once`",
        ASKING,
        read_kind,
        write_kind,
    ),
    Rule(
        "permission-message",
        ("seed-003",),
        "permission asked with `message`",
        "`toolCall` with that title and an id of its own",
        ASKING,
        read_message,
        write_message,
    ),
    Rule(
        "permission-title",
        ("seed-004",),
        "permission asked with `title` and `description`",
        "`toolCall` with that title, the description as its content and an id of its own",
        ASKING,
        read_title,
        write_title,
    ),
    Rule(
        "permission-answer",
        ("seed-004", "transport draft"),
        "`selectedOptionId`, or `outcome` as a string",
        "`outcome: {outcome: selected, optionId}` if that option was offered, else `cancelled`",
        results(SESSION_REQUEST_PERMISSION),
        read_answer,
        write_answer,
    ),
)
