"""The model list of the October 2025 schema as a config option, and back; only on request.

That schema had `models` in the answers that open a session, and `session/set_model`. Today a model is a config option
of the category `model`. A client sees such an agent's models as an option; an agent's option is also offered as
`models`, and `session/set_model` sets it. The option made here carries a mark in its `_meta`, to be known again by.
"""

from __future__ import annotations

from duologue.compat.content import update_of
from duologue.compat.json_access import JsonObject, as_object, objects
from duologue.compat.message import OpenMessage
from duologue.compat.methods import (
    SESSION_OPENERS,
    SESSION_SET_CONFIG_OPTION,
    SESSION_SET_MODEL,
    SESSION_UPDATE,
)
from duologue.compat.rules import Rule, params, results

__all__ = ["RULES"]

OPTION_ID = "model"
MARK = "seed-001"


def read_models(letter: OpenMessage) -> bool:
    """The list becomes one more option, unless the agent has an option for it already."""
    fields = letter.fields
    models = as_object(fields.get("models"))
    options = objects(fields.get("configOptions"))
    if not objects(models.get("availableModels")) or _model_option(options) or _find(options, OPTION_ID):
        return False
    del fields["models"]
    fields["configOptions"] = [*options, _option_from(models)]
    return True


def _option_from(models: JsonObject) -> JsonObject:
    choices = [
        {"value": model.get("modelId"), "name": model.get("name") or model.get("modelId")}
        | ({"description": model["description"]} if isinstance(model.get("description"), str) else {})
        for model in objects(models.get("availableModels"))
    ]
    return {
        "id": OPTION_ID,
        "name": "Model",
        "category": "model",
        "type": "select",
        "currentValue": models.get("currentModelId"),
        "options": choices,
        "_meta": {MARK: "models"},
    }


def write_models(letter: OpenMessage) -> bool:
    """The option stays; the list stands beside it for those who look there."""
    option = _model_option(objects(letter.fields.get("configOptions")))
    if option is None or "models" in letter.fields:
        return False
    letter.fields["models"] = {
        "currentModelId": option.get("currentValue"),
        "availableModels": [_model_from(choice) for choice in _choices(option)],
    }
    return True


def _model_from(choice: JsonObject) -> JsonObject:
    description = {"description": choice["description"]} if isinstance(choice.get("description"), str) else {}
    return {"modelId": choice.get("value"), "name": choice.get("name"), **description}


def _choices(option: JsonObject) -> list[JsonObject]:
    """The choices of a select option, out of their groups."""
    items = objects(option.get("options"))
    return [choice for item in items for choice in (objects(item["options"]) if "options" in item else [item])]


def read_list(letter: OpenMessage) -> bool:
    """A complete list of an agent that knows no such option still has it."""
    fields = update_of(letter) or letter.fields
    known = _find(letter.known.config_options.get(_session_id(letter), []), OPTION_ID)
    if known is None or MARK not in as_object(known.get("_meta")) or not isinstance(fields.get("configOptions"), list):
        return False
    options = objects(fields["configOptions"])
    if _find(options, OPTION_ID):
        return False
    fields["configOptions"] = [*options, known]
    return True


def write_change(letter: OpenMessage) -> bool:
    """Setting the option we made is setting the model."""
    fields = letter.fields
    option = _find(letter.known.config_options.get(_session_id(letter), []), fields.get("configId", ""))
    if option is None or MARK not in as_object(option.get("_meta")):
        return False
    letter.method = SESSION_SET_MODEL
    letter.body = {"sessionId": fields.get("sessionId"), "modelId": fields.get("value")}
    return True


def read_set_model(letter: OpenMessage) -> bool:
    """Setting the model is setting the session's option for it, if it has one."""
    option = _model_option(letter.known.config_options.get(_session_id(letter), []))
    if option is None:
        return False
    fields = letter.fields
    letter.method = SESSION_SET_CONFIG_OPTION
    letter.body = {"sessionId": fields.get("sessionId"), "configId": option["id"], "value": fields.get("modelId")}
    return True


def _session_id(letter: OpenMessage) -> str:
    return str(letter.fields.get("sessionId", letter.request.session_id))


def _model_option(options: list[JsonObject]) -> JsonObject | None:
    chosen = (option for option in options if option.get("category") == "model" and option.get("type") == "select")
    return next((option for option in chosen if isinstance(option.get("id"), str)), None)


def _find(options: list[JsonObject], id: str) -> JsonObject | None:
    return next((option for option in options if option.get("id") == id), None)


RULES = (
    Rule(
        "models",
        ("models",),
        "`models` in the answers that open a session",
        "a config option of the category `model`",
        results(*SESSION_OPENERS),
        read_models,
        write_models,
    ),
    Rule(
        "models-in-lists",
        ("models",),
        "lists of config options without the model",
        "lists with it",
        (*params(SESSION_UPDATE), *results(SESSION_SET_CONFIG_OPTION)),
        read_list,
    ),
    Rule(
        "set-model",
        ("models",),
        "`session/set_model` from the client",
        "`session/set_config_option`",
        params(SESSION_SET_MODEL),
        read_set_model,
    ),
    Rule(
        "change-model",
        ("models",),
        "`session/set_model` to the agent",
        "`session/set_config_option`",
        params(SESSION_SET_CONFIG_OPTION),
        write=write_change,
    ),
)
