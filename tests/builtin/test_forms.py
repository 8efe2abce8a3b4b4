"""/permission, /withdraw, /ask: what the user chose is what the agent says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from duologue.builtin.agent import builtin_agent
from duologue.errors import RequestCancelled
from duologue.runtime.handlers import Context
from duologue.schema import v1
from tests.agent.wire_client import client_for
from tests.builtin.harness import Harness, open_harness


@pytest.mark.parametrize(
    ("choose", "text", "status"),
    [
        ("allow_once", "You chose: Allow once (`allow_once`)", "completed"),
        ("allow_always", "You chose: Always allow (`allow_always`)", "completed"),
        ("reject_once", "You chose: Reject (`reject_once`)", "failed"),
        ("reject_always", "You chose: Always reject (`reject_always`)", "failed"),
        (None, "You chose nothing", "failed"),
    ],
)
async def test_permission_is_asked_every_time_and_the_choice_is_said(
    tmp_path: Path, choose: str | None, text: str, status: str
) -> None:
    async with open_harness(tmp_path, choose=choose) as harness:
        for asked in (1, 2):
            assert text in await harness.ask("/permission")
            assert harness.status == status
            assert len(harness.asked) == asked


async def test_several_questions_can_be_open_at_once(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        together = asyncio.Barrier(3)

        @harness.client.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def answer(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            await together.wait()
            return v1.RequestPermissionResponse(outcome=v1.CancelledPermissionOutcome())

        text = await harness.ask("/permission 3")
        assert text.count("You chose nothing") == 3


async def test_a_question_that_is_taken_back_is_cancelled_at_the_editor(tmp_path: Path) -> None:
    cancelled = asyncio.Event()
    async with open_harness(tmp_path) as harness:

        @harness.client.handlers.on(v1.SESSION_REQUEST_PERMISSION)
        async def answer(context: Context, params: v1.RequestPermissionRequest) -> v1.RequestPermissionResponse:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            raise RequestCancelled

        assert "I took the question back" in await harness.ask("/withdraw 0.05")
        assert harness.status == "failed"
        await cancelled.wait()


async def test_a_quick_answer_comes_before_the_question_is_taken_back(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        assert "You were faster than me: Allow once" in await harness.ask("/withdraw")


async def test_a_form_holds_every_kind_of_question_and_the_answer_is_said(tmp_path: Path) -> None:
    questions: list[Any] = []
    async with open_harness(tmp_path) as harness:

        @harness.client.handlers.on(v1.ELICITATION_CREATE)
        async def answer(context: Context, params: v1.CreateElicitationRequest) -> v1.CreateElicitationResponse:
            questions.append(params)
            return v1.ElicitationAcceptAction(content={"drink": "tea", "cups": 2, "extras": ["honey"]})

        text = await harness.ask("/ask")
        assert "You ordered: `Order(drink='tea', cups=2," in text
        (form,) = questions
        assert isinstance(form, v1.ElicitationFormMode)
        assert list(form.requested_schema.properties) == ["drink", "cups", "degrees", "milk", "name", "extras"]
        assert form.requested_schema.required == ["drink"]


@pytest.mark.parametrize("kind", ["form", "url"])
async def test_a_declined_question_is_no_error(tmp_path: Path, kind: str) -> None:
    async with open_harness(tmp_path) as harness:

        @harness.client.handlers.on(v1.ELICITATION_CREATE)
        async def answer(context: Context, params: v1.CreateElicitationRequest) -> v1.CreateElicitationResponse:
            return v1.ElicitationDeclineAction()

        text = await harness.ask(f"/ask {kind}")
        assert "You ordered nothing" in text or "You did not agree" in text


async def test_a_url_is_offered_and_its_completion_is_reported(tmp_path: Path) -> None:
    offered: list[str] = []
    done: list[str] = []
    async with open_harness(tmp_path) as harness:

        @harness.client.handlers.on(v1.ELICITATION_CREATE)
        async def answer(context: Context, params: v1.CreateElicitationRequest) -> v1.CreateElicitationResponse:
            assert isinstance(params, v1.ElicitationUrlMode)
            offered.append(params.elicitation_id)
            return v1.ElicitationAcceptAction()

        @harness.client.handlers.on(v1.ELICITATION_COMPLETE)
        async def complete(context: Context, params: v1.CompleteElicitationNotification) -> None:
            done.append(params.elicitation_id)

        assert "You agreed" in await harness.ask("/ask url")
        assert offered == done != []


async def test_a_client_without_forms_gets_an_answer_that_says_so(tmp_path: Path) -> None:
    async with asyncio.timeout(60), client_for(builtin_agent(), tmp_path) as client:
        harness = Harness(client, None)
        harness.session = await client.new()

        assert "Your client has no forms" in await harness.ask("/ask")
        assert "I could not ask" in await harness.ask("/ask url")


async def test_an_editor_that_advertises_forms_and_has_none_is_survived(tmp_path: Path) -> None:
    async with open_harness(tmp_path) as harness:
        assert "I could not ask: no such method" in await harness.ask("/ask")
