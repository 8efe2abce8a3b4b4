"""Forms and addresses: what a dataclass becomes, every kind of answer, and what is never asked."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from duologue.agent.elicitation import form_schema
from duologue.agent.settings import Settings
from duologue.agent.turn import Turn
from duologue.errors import InvalidParams, RequestError
from duologue.protocol.values import Elicitation
from duologue.runtime.handlers import Context
from duologue.schema import v1
from duologue.schema.base import Other
from tests.agent.wire_client import agent_with, client_for

FORMS: dict[str, Any] = {"elicitation": v1.ElicitationCapabilities(form=v1.ElicitationFormCapabilities())}
URLS: dict[str, Any] = {"elicitation": v1.ElicitationCapabilities(url=v1.ElicitationUrlCapabilities())}


@dataclass
class Release:
    """A release."""

    version: str = field(metadata={"title": "Version", "pattern": r"\d+\.\d+", "minLength": 3, "maxLength": 9})
    channel: Literal["stable", "beta"] = "stable"
    copies: int = field(default=1, metadata={"minimum": 1, "maximum": 5})
    share: float = 0.5
    announce: bool = True
    mail: str | None = field(default=None, metadata={"format": "email", "description": "Address for the announcement"})
    parts: list[Literal["docs", "tests"]] = field(default_factory=lambda: ["docs"])


def test_a_dataclass_becomes_a_form_of_every_kind_of_field() -> None:
    assert form_schema(Release) == {
        "type": "object",
        "description": "A release.",
        "required": ["version"],
        "properties": {
            "version": {"type": "string", "title": "Version", "pattern": r"\d+\.\d+", "minLength": 3, "maxLength": 9},
            "channel": {"type": "string", "enum": ["stable", "beta"], "default": "stable"},
            "copies": {"type": "integer", "minimum": 1, "maximum": 5, "default": 1},
            "share": {"type": "number", "default": 0.5},
            "announce": {"type": "boolean", "default": True},
            "mail": {"type": "string", "format": "email", "description": "Address for the announcement"},
            "parts": {
                "type": "array",
                "items": {"type": "string", "enum": ["docs", "tests"]},
                "default": ["docs"],
            },
        },
    }


@dataclass
class Nested:
    release: Release


@dataclass
class Numbered:
    number: Literal[1, 2]


@dataclass
class Secret:
    name: str
    api_key: str


@pytest.mark.rule(129)
@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (Nested, "release"),
        (Numbered, "number"),
        (Secret, "must not ask for a secret"),
        (int, "a form must be a dataclass"),
        (type("Plain", (), {}), "a form must be a dataclass"),
    ],
)
def test_a_field_that_no_form_can_show_is_rejected_when_it_is_declared(form: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        form_schema(form)


@pytest.mark.rule(133)
@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (v1.ElicitationAcceptAction(content={"version": "1.2"}), Release("1.2")),
        (
            v1.ElicitationAcceptAction(content={"version": "1.2", "copies": 3, "share": 1, "parts": ["tests"]}),
            Release("1.2", copies=3, share=1.0, parts=["tests"]),
        ),
        (v1.ElicitationAcceptAction(content={}), None),
        (v1.ElicitationAcceptAction(), None),
        (v1.ElicitationAcceptAction(content={"version": 5}), None),
        (v1.ElicitationAcceptAction(content={"version": "1.2", "channel": "nightly"}), None),
        (v1.ElicitationDeclineAction(), None),
        (v1.ElicitationCancelAction(), None),
        (Other("shrug", {"action": "shrug", "content": {"version": "1.2"}}), None),
    ],
    ids=["accept", "more", "empty", "nothing", "wrong type", "wrong choice", "decline", "cancel", "unknown"],
)
async def test_an_answer_is_an_instance_or_nothing(
    tmp_path: Path, answer: v1.CreateElicitationResponse, read: Release | None
) -> None:
    got: list[Release | None] = []

    async def ask(turn: Turn[Settings]) -> None:
        async with turn.tool("Release") as tool:
            got.append(await turn.elicit(Release, "What shall I release?", tool=tool))

    async with asyncio.timeout(60), client_for(agent_with(ask), tmp_path, validate=True, **FORMS) as client:

        @client.handlers.on(v1.ELICITATION_CREATE)
        async def fill_in(context: Context, params: v1.CreateElicitationRequest) -> v1.CreateElicitationResponse:
            return answer

        session = await client.new()
        assert (await client.prompt(session, "go")).stop_reason == "end_turn"
        assert got == [read]
        [asked] = client.validator.calls("elicitation/create")
        assert asked["params"]["mode"] == "form"
        assert asked["params"]["sessionId"] == session
        assert asked["params"]["toolCallId"] == client.of(v1.ToolCall)[0].tool_call_id
        # On the wire a form is an object even if it does not say so.
        assert {"type": "object", **asked["params"]["requestedSchema"]} == form_schema(Release)


@pytest.mark.rule(127)
@pytest.mark.parametrize("capabilities", [{}, {"elicitation": v1.ElicitationCapabilities()}, URLS])
async def test_a_client_without_forms_is_not_asked(tmp_path: Path, capabilities: dict[str, Any]) -> None:
    got: list[Release | None] = []

    async def ask(turn: Turn[Settings]) -> None:
        got.append(await turn.elicit(Release, "What?"))

    async with asyncio.timeout(60), client_for(agent_with(ask), tmp_path, validate=True, **capabilities) as client:
        await client.prompt(await client.new(), "go")
        assert got == [None]
        assert client.validator.calls("elicitation/create") == []


@pytest.mark.rule(127, 129, 131, 135)
async def test_an_address_is_asked_with_an_id_of_its_own_and_never_falls_back_to_a_form(tmp_path: Path) -> None:
    agreed: list[bool] = []

    async def ask(turn: Turn[Settings]) -> None:
        agreed.append(await turn.elicit_url("Log in", "https://example.com/login?state=x"))
        agreed.append(await turn.elicit_url("Log in", "https://example.com/login?state=x"))
        with pytest.raises(ValueError, match="user name or password"):
            await turn.elicit_url("Log in", "https://me:secret@example.com/")
        await turn.session.complete_elicitation("mine")

    async with asyncio.timeout(60), client_for(agent_with(ask), tmp_path, validate=True, **URLS) as client:

        @client.handlers.on(v1.ELICITATION_CREATE)
        async def accept(context: Context, params: v1.CreateElicitationRequest) -> v1.CreateElicitationResponse:
            return v1.ElicitationDeclineAction() if agreed else v1.ElicitationAcceptAction()

        await client.prompt(await client.new(), "go")
        assert agreed == [True, False]
        asked = client.validator.calls("elicitation/create")
        assert [message["params"]["mode"] for message in asked] == ["url"] * 2
        assert len({message["params"]["elicitationId"] for message in asked}) == 2
        assert [message["params"] for message in client.validator.calls("elicitation/complete")] == [
            {"elicitationId": "mine"}
        ]
    async with asyncio.timeout(60), client_for(agent_with(ask), tmp_path, validate=True, **FORMS) as client:
        with pytest.raises(InvalidParams, match="does not support URL elicitation"):
            await client.prompt(await client.new(), "go")
        assert client.validator.calls("elicitation/create") == []


async def test_a_question_may_be_about_a_request_rather_than_a_session(tmp_path: Path) -> None:
    async def ask(turn: Turn[Settings]) -> None:
        question = Elicitation(message="Which?", request_id="r", schema=form_schema(Release), meta={"q": 1})
        answer = await turn.session._client.elicit(question)
        await turn.say(f"{answer.action} {answer.meta}")

    async with asyncio.timeout(60), client_for(agent_with(ask), tmp_path, validate=True, **FORMS) as client:

        @client.handlers.on(v1.ELICITATION_CREATE)
        async def decline(context: Context, params: v1.CreateElicitationRequest) -> v1.CreateElicitationResponse:
            return v1.ElicitationDeclineAction(meta={"a": 1})

        await client.prompt(await client.new(), "go")
        [asked] = client.validator.calls("elicitation/create")
        assert (asked["params"]["requestId"], asked["params"]["_meta"]) == ("r", {"q": 1})
        assert "sessionId" not in asked["params"]
        assert client.text == "decline {'a': 1}"


@pytest.mark.rule(133)
async def test_a_client_that_fails_to_ask_is_an_error_the_author_can_catch(tmp_path: Path) -> None:
    caught: list[int] = []

    async def ask(turn: Turn[Settings]) -> None:
        try:
            await turn.elicit(Release, "What?")
        except RequestError as error:
            caught.append(error.code)

    async with asyncio.timeout(60), client_for(agent_with(ask), tmp_path, **FORMS) as client:
        assert (await client.prompt(await client.new(), "go")).stop_reason == "end_turn"
        assert caught == [-32601]
