"""Requests of an agent about a session that its client answers: fields, result, capability and form on the wire.

A request is declared here and nowhere else: `ClientProxy.ask` sends any of them, `ClientMethods` registers those that
the client has the capability for, and the client's `answer` gets them. Permissions and elicitations, which the two
versions write differently, have methods of their own.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

from msgspec import Struct

from duologue.conversation.fields import convert_fields
from duologue.conversation.work_state import TerminalExit
from duologue.protocol.shared.session_setup import named_values_from_wire, named_values_to_wire
from duologue.protocol.values import TerminalOutputResult
from duologue.schema.base import Method

R_co = TypeVar("R_co", covariant=True)


class ClientRequest(Struct, Generic[R_co], frozen=True, kw_only=True):
    """A request whose result has the type `R_co`. Its fields have the names of those on the wire."""

    method: ClassVar[str]
    """The name of its constant in the schemas; a version without it does not have the request."""
    capability: ClassVar[str]
    """The field of `ClientCapabilities` without which it is not answered."""
    result: ClassVar[str | type[Struct] | None] = None
    """The field of the response that is the result, or a class with the fields of the response."""
    in_order: ClassVar[bool] = False
    """It is answered once all updates that were sent before it have been handled."""

    session_id: str


class ReadFile(ClientRequest[str], frozen=True, kw_only=True):
    """Read a file, with unsaved changes; lines count from 1."""

    method = "FS_READ_TEXT_FILE"
    capability = "reads_files"
    result = "content"
    in_order = True

    path: str
    line: int | None = None
    limit: int | None = None


class WriteFile(ClientRequest[None], frozen=True, kw_only=True):
    """Replace the text of a file, or create it."""

    method = "FS_WRITE_TEXT_FILE"
    capability = "writes_files"
    in_order = True

    path: str
    content: str


class CreateTerminal(ClientRequest[str], frozen=True, kw_only=True):
    """Start a command in a terminal, and return the terminal's id."""

    method = "TERMINAL_CREATE"
    capability = "terminals"
    result = "terminal_id"
    in_order = True

    command: str
    args: list[str]
    env: dict[str, str]
    cwd: str | None = None
    output_byte_limit: int | None = None


class GetTerminalOutput(ClientRequest[TerminalOutputResult], frozen=True, kw_only=True):
    """Return the output of a terminal so far."""

    method = "TERMINAL_OUTPUT"
    capability = "terminals"
    result = TerminalOutputResult

    terminal_id: str


class WaitForExit(ClientRequest[TerminalExit], frozen=True, kw_only=True):
    """Wait until the command of a terminal has ended."""

    method = "TERMINAL_WAIT_FOR_EXIT"
    capability = "terminals"
    result = TerminalExit

    terminal_id: str


class KillTerminal(ClientRequest[None], frozen=True, kw_only=True):
    """End the command of a terminal; its output stays."""

    method = "TERMINAL_KILL"
    capability = "terminals"

    terminal_id: str


class ReleaseTerminal(ClientRequest[None], frozen=True, kw_only=True):
    """End the command of a terminal, and forget the terminal."""

    method = "TERMINAL_RELEASE"
    capability = "terminals"

    terminal_id: str


KINDS: tuple[type[ClientRequest[Any]], ...] = (
    ReadFile,
    WriteFile,
    CreateTerminal,
    GetTerminalOutput,
    WaitForExit,
    KillTerminal,
    ReleaseTerminal,
)
"""Every request."""


def request_to_wire(schema: Any, request: ClientRequest[Any]) -> Any:
    method: Method[Any, Any] = getattr(schema, request.method)
    if isinstance(request, CreateTerminal):
        return convert_fields(request, method.params, env=named_values_to_wire(schema.EnvVariable, request.env))
    return convert_fields(request, method.params)


def request_from_wire(kind: type[ClientRequest[Any]], params: Any) -> ClientRequest[Any]:
    if kind is CreateTerminal:
        return convert_fields(params, kind, env=named_values_from_wire(params.env))
    return convert_fields(params, kind)


def result_to_wire(schema: Any, kind: type[ClientRequest[Any]], result: Any) -> Any:
    response = getattr(schema, kind.method).result
    if isinstance(kind.result, str):
        return response(**{kind.result: result})
    if isinstance(result, TerminalOutputResult):
        status = None if result.exit is None else convert_fields(result.exit, schema.TerminalExitStatus)
        return convert_fields(result, response, exit_status=status)
    return response() if kind.result is None else convert_fields(result, response)


def result_from_wire(kind: type[ClientRequest[Any]], response: Any) -> Any:
    if isinstance(kind.result, str):
        return getattr(response, kind.result)
    if kind.result is TerminalOutputResult:
        status = None if response.exit_status is None else convert_fields(response.exit_status, TerminalExit)
        return convert_fields(response, kind.result, exit=status)
    return None if kind.result is None else convert_fields(response, kind.result)
