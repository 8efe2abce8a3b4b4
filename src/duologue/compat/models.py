"""The model list of the October 2025 schema as a config option, and back; only on request.

That schema had `models` in the answers that open a session, and `session/set_model`. Today a model is a config option
of the category `model`. A client sees such an agent's models as an option; an agent's option is also offered as
`models`, and `session/set_model` sets it. The option made here has a mark in its `_meta`, by which it is recognised.
"""

from __future__ import annotations

from duologue.compat.content import update_of
from duologue.compat.json_access import as_object, objects
from duologue.compat.message import OpenMessage
from duologue.compat.rules import SESSION_OPENERS, Rule, params, results
from duologue.schema import legacy, v1
from duologue.schema.base import JsonObject

OPTION_ID = "model"
MARK = "seed-001"


def read_models(message: OpenMessage) -> bool:
    """Make the list a config option, unless the agent has one for it already."""
    fields = message.fields
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


def write_models(message: OpenMessage) -> bool:
    """Add the list to the option, for clients that look there."""
    option = _model_option(objects(message.fields.get("configOptions")))
    if option is None or "models" in message.fields:
        return False
    message.fields["models"] = {
        "currentModelId": option.get("currentValue"),
        "availableModels": [_model_from(choice) for choice in _choices(option)],
    }
    return True


def _model_from(choice: JsonObject) -> JsonObject:
    description = {"description": choice["description"]} if isinstance(choice.get("description"), str) else {}
    return {"modelId": choice.get("value"), "name": choice.get("name"), **description}


def _choices(option: JsonObject) -> list[JsonObject]:
    """Return the choices of a select option, out of their groups."""
    items = objects(option.get("options"))
    return [choice for item in items for choice in (objects(item["options"]) if "options" in item else [item])]


def read_list(message: OpenMessage) -> bool:
    """Add the option to complete lists of an agent that does not know it."""
    fields = update_of(message) or message.fields
    known = _find(message.known.config_options.get(_session_id(message), []), OPTION_ID)
    if known is None or MARK not in as_object(known.get("_meta")) or not isinstance(fields.get("configOptions"), list):
        return False
    options = objects(fields["configOptions"])
    if _find(options, OPTION_ID):
        return False
    fields["configOptions"] = [*options, known]
    return True


def write_change(message: OpenMessage) -> bool:
    """Replace setting the option made here by setting the model."""
    fields = message.fields
    option = _find(message.known.config_options.get(_session_id(message), []), fields.get("configId", ""))
    if option is None or MARK not in as_object(option.get("_meta")):
        return False
    message.method = legacy.SESSION_SET_MODEL.name
    message.body = {"sessionId": fields.get("sessionId"), "modelId": fields.get("value")}
    return True


def read_set_model(message: OpenMessage) -> bool:
    """Replace setting the model by setting the session's option for it, if it has one."""
    option = _model_option(message.known.config_options.get(_session_id(message), []))
    if option is None:
        return False
    fields = message.fields
    message.method = v1.SESSION_SET_CONFIG_OPTION.name
    message.body = {"sessionId": fields.get("sessionId"), "configId": option["id"], "value": fields.get("modelId")}
    return True


def _session_id(message: OpenMessage) -> str:
    return str(message.fields.get("sessionId", message.request.session_id))


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
        (*params(v1.SESSION_UPDATE), *results(v1.SESSION_SET_CONFIG_OPTION)),
        read_list,
    ),
    Rule(
        "set-model",
        ("models",),
        "`session/set_model` from the client",
        "`session/set_config_option`",
        params(legacy.SESSION_SET_MODEL),
        read_set_model,
    ),
    Rule(
        "change-model",
        ("models",),
        "`session/set_model` to the agent",
        "`session/set_config_option`",
        params(v1.SESSION_SET_CONFIG_OPTION),
        write=write_change,
    ),
)
