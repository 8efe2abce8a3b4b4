"""Rules for the error codes of seed 004; -32002 has another meaning today and is rewritten only for `authenticate`."""

from __future__ import annotations

from duologue.compat.json_access import as_object, replacing
from duologue.compat.message import OpenMessage
from duologue.compat.rules import Rule, body, each
from duologue.errors import AuthenticationRequired, InternalError, InvalidParams, MethodNotFound, ResourceNotFound
from duologue.schema import v1
from duologue.schema.base import JsonObject, JsonValue

AUTHENTICATION_FAILED = -32001
INVALID_AUTH_METHOD = -32002
RESOURCE_NOT_FOUND = -32003
PERMISSION_DENIED = -32004
SESSION_NOT_FOUND = -32005
INVALID_SESSION_STATE = -32006
CAPABILITY_NOT_SUPPORTED = -32007

CODES_TODAY = {
    AUTHENTICATION_FAILED: AuthenticationRequired.code,
    RESOURCE_NOT_FOUND: ResourceNotFound.code,
    SESSION_NOT_FOUND: ResourceNotFound.code,
    CAPABILITY_NOT_SUPPORTED: MethodNotFound.code,
}
CODES_WITHOUT_EQUIVALENT = frozenset({PERMISSION_DENIED, INVALID_SESSION_STATE})


def _code(error: JsonObject) -> int:
    code: JsonValue = error.get("code")
    return code if isinstance(code, int) else 0


def write_code(error: JsonObject) -> bool:
    """Replace a code by the seed's; the data says whether a session or a resource was not found."""
    if _code(error) == AuthenticationRequired.code:
        error["code"] = AUTHENTICATION_FAILED
    elif _code(error) == ResourceNotFound.code:
        is_session = "sessionId" in as_object(error.get("data"))
        error["code"] = SESSION_NOT_FOUND if is_session else RESOURCE_NOT_FOUND
    else:
        return False
    return True


def _auth_errors(message: OpenMessage) -> list[JsonObject]:
    return body(message) if message.request.method == v1.AUTHENTICATE.name else []


def read_code_without_equivalent(error: JsonObject) -> bool:
    """Replace a code that has no equivalent by "internal error", with the code in its data."""
    code = _code(error)
    if code not in CODES_WITHOUT_EQUIVALENT:
        return False
    data: JsonValue = error.get("data")
    error["code"] = InternalError.code
    error["data"] = {"code": code} if data is None else {"code": code, "data": data}
    return True


def write_code_without_equivalent(error: JsonObject) -> bool:
    """Restore the code from the data."""
    data = as_object(error.get("data"))
    if _code(error) != InternalError.code or _code(data) not in CODES_WITHOUT_EQUIVALENT:
        return False
    error["code"] = data["code"]
    error["data"] = data.get("data")
    return True


RULES = (
    Rule(
        "error-login-method",
        ("seed-004",),
        "-32002 as the answer to `authenticate`",
        "-32602",
        (("error", ""),),
        each(_auth_errors, replacing("code", {INVALID_AUTH_METHOD: InvalidParams.code})),
        each(_auth_errors, replacing("code", {InvalidParams.code: INVALID_AUTH_METHOD})),
    ),
    Rule(
        "error-code",
        ("seed-004",),
        "-32001; -32003 and -32005; -32007",
        "-32000; -32002; -32601 (written as it is)",
        (("error", ""),),
        each(body, replacing("code", CODES_TODAY)),
        each(body, write_code),
    ),
    Rule(
        "error-code-in-data",
        ("seed-004",),
        "-32004, -32006",
        "-32603 with the code in `data`",
        (("error", ""),),
        each(body, read_code_without_equivalent),
        each(body, write_code_without_equivalent),
    ),
)
