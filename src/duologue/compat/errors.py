"""Error codes of seed 004; -32002 is left alone unless it answers a login, for it means another thing today."""

from __future__ import annotations

from duologue.compat.json_access import JsonObject, JsonValue, as_object
from duologue.compat.message import OpenMessage
from duologue.compat.methods import AUTHENTICATE
from duologue.compat.rules import Rule
from duologue.errors import AuthenticationRequired, InternalError, InvalidParams, MethodNotFound, ResourceNotFound

__all__ = ["RULES"]

AUTHENTICATION_FAILED = -32001
INVALID_LOGIN_METHOD = -32002
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
CODES_WITHOUT_EQUAL = frozenset({PERMISSION_DENIED, INVALID_SESSION_STATE})


def _code(error: JsonObject) -> int:
    code: JsonValue = error.get("code")
    return code if isinstance(code, int) else 0


def read_code(letter: OpenMessage) -> bool:
    """The class a catcher of today expects."""
    error = letter.fields
    if _code(error) not in CODES_TODAY:
        return False
    error["code"] = CODES_TODAY[_code(error)]
    return True


def write_code(letter: OpenMessage) -> bool:
    """Whose absence it is shows in the data."""
    error = letter.fields
    if _code(error) == AuthenticationRequired.code:
        error["code"] = AUTHENTICATION_FAILED
    elif _code(error) == ResourceNotFound.code:
        is_session = "sessionId" in as_object(error.get("data"))
        error["code"] = SESSION_NOT_FOUND if is_session else RESOURCE_NOT_FOUND
    else:
        return False
    return True


def read_login_method(letter: OpenMessage) -> bool:
    """As the answer to a login, -32002 says that there is no such method."""
    is_it = letter.request.method == AUTHENTICATE and _code(letter.fields) == INVALID_LOGIN_METHOD
    if is_it:
        letter.fields["code"] = InvalidParams.code
    return is_it


def write_login_method(letter: OpenMessage) -> bool:
    """The way back."""
    is_it = letter.request.method == AUTHENTICATE and _code(letter.fields) == InvalidParams.code
    if is_it:
        letter.fields["code"] = INVALID_LOGIN_METHOD
    return is_it


def read_code_without_equal(letter: OpenMessage) -> bool:
    """An internal error that keeps the code in its data."""
    error = letter.fields
    code = _code(error)
    if code not in CODES_WITHOUT_EQUAL:
        return False
    data: JsonValue = error.get("data")
    error["code"] = InternalError.code
    error["data"] = {"code": code} if data is None else {"code": code, "data": data}
    return True


def write_code_without_equal(letter: OpenMessage) -> bool:
    """The code that the data asks for."""
    error = letter.fields
    data = as_object(error.get("data"))
    if _code(error) != InternalError.code or _code(data) not in CODES_WITHOUT_EQUAL:
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
        read_login_method,
        write_login_method,
    ),
    Rule(
        "error-code",
        ("seed-004",),
        "-32001; -32003 and -32005; -32007",
        "-32000; -32002; -32601 (written as it is)",
        (("error", ""),),
        read_code,
        write_code,
    ),
    Rule(
        "error-code-in-data",
        ("seed-004",),
        "-32004, -32006",
        "-32603 with the code in `data`",
        (("error", ""),),
        read_code_without_equal,
        write_code_without_equal,
    ),
)
