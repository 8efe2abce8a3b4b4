"""Asking the user: every failure is a rejection."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from duologue.client.permissions.actions import Action, ActionContext
from duologue.client.permissions.policy import Permissions
from duologue.client.permissions.request import PermissionRequest
from duologue.client.permissions.rules import Rules, Verdict
from duologue.protocol.values import PermissionOption
from tests.client.permission_requests import ALL, User, question, user_answering, writes

pytestmark = pytest.mark.timeout(30)

# --- no answer never allows


async def _raises(asked: PermissionRequest) -> object:
    raise RuntimeError("the screen is on fire")


def _returns_yes(asked: PermissionRequest) -> str:
    return "yes"


def _takes_nothing() -> bool:
    return True


@pytest.mark.fault("PRM-01")
@pytest.mark.parametrize(
    "on_request",
    [
        None,
        _raises,
        *map(user_answering, (None, 0, 1, "yes", "Allow", "allow_once", object(), b"allow")),
        User(lambda asked: PermissionOption(option_id="allow_once", name="made up", kind="allow_once")),
        User(lambda asked: asked.choose("no such option")),
        _returns_yes,
        _takes_nothing,
    ],
)
@pytest.mark.filterwarnings("ignore:`on_request`:RuntimeWarning")
async def test_whatever_goes_wrong_while_asking_is_a_refusal(on_request: Any, tmp_path: Path) -> None:
    permissions = Permissions(on_request=on_request)

    assert await permissions.decide(question(tmp_path)) == "reject_once"
    assert not await writes(permissions, tmp_path, tmp_path / "a")


@pytest.mark.fault("PRM-01")
async def test_no_answer_in_time_is_a_refusal_and_a_late_one_does_not_count() -> None:
    requests: list[PermissionRequest] = []

    async def never(asked: PermissionRequest) -> None:
        requests.append(asked)
        await asyncio.Event().wait()

    assert await Permissions(on_request=never, timeout=0.01).decide(question()) == "reject_once"
    assert not requests[0].allow()


@pytest.mark.fault("PRM-01")
async def test_a_function_that_ignores_its_end_does_not_hold_up_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    over = asyncio.Event()

    async def stubborn(asked: PermissionRequest) -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    assert await Permissions(on_request=stubborn, timeout=0.01).decide(question()) == "reject_once"
    assert "ignores cancellation" in caplog.text
    over.set()


@pytest.mark.fault("PRM-01")
async def test_a_user_interface_that_goes_away_has_said_no() -> None:
    permissions = Permissions()
    first, second = question(), question()

    with permissions.requests() as requests:
        waiting = [asyncio.ensure_future(permissions.decide(each)) for each in (first, second)]
        assert await anext(requests) is first
    assert [await each for each in waiting] == ["reject_once", "reject_once"]
    assert await permissions.decide(question()) == "reject_once"


@pytest.mark.fault("PRM-01")
async def test_a_user_interface_whose_loop_has_died_is_gone() -> None:
    permissions = Permissions()

    async def listen_and_die() -> None:
        permissions.requests().__enter__()

    await asyncio.to_thread(asyncio.run, listen_and_die())
    assert await permissions.decide(question()) == "reject_once"


@pytest.mark.fault("PRM-01")
async def test_a_failure_of_the_policy_is_a_rejection(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Rules):
        def evaluate(self, action: Action, context: ActionContext) -> Verdict | None:
            raise ZeroDivisionError

    permissions = Permissions.allow_everything(rules=[Broken({})])
    assert await permissions.decide(question(tmp_path, paths=[tmp_path / "a"])) == "reject_once"
    assert not await writes(permissions, tmp_path, tmp_path / "a")
    assert "the permission policy failed" in caplog.text


async def test_questions_are_answered_by_another_thread_with_its_own_loop() -> None:
    permissions = Permissions()
    is_listening = threading.Event()

    async def listen() -> None:
        with permissions.requests() as requests:
            is_listening.set()
            async for asked in requests:
                asked.allow()
                if asked.title == "last":
                    return

    thread = threading.Thread(target=lambda: asyncio.run(listen()))
    thread.start()
    await asyncio.to_thread(is_listening.wait)
    assert await permissions.decide(question(title="first")) == "allow_once"
    assert await permissions.decide(question(title="last")) == "allow_once"
    await asyncio.to_thread(thread.join)
    assert await permissions.decide(question()) == "reject_once"


async def test_a_question_is_a_value_that_any_thread_answers_later() -> None:
    async def hand_over(asked: PermissionRequest) -> None:
        threading.Thread(target=asked.allow).start()
        await asked.decided()

    assert await Permissions(on_request=hand_over).decide(question()) == "allow_once"


@pytest.mark.parametrize("yes", [True, "allow", ALL[0]])
@pytest.mark.parametrize("no", [False, "reject", ALL[2]])
async def test_a_function_may_return_its_answer(yes: object, no: object) -> None:
    assert await Permissions(on_request=User(lambda asked: yes)).decide(question()) == "allow_once"
    assert await Permissions(on_request=User(lambda asked: no)).decide(question()) == "reject_once"


async def test_a_plain_function_decides_in_a_thread_where_it_may_block() -> None:
    released, threads = threading.Event(), set[threading.Thread]()

    def decide(asked: PermissionRequest) -> bool:
        threads.add(threading.current_thread())
        return released.wait(30)

    deciding = asyncio.ensure_future(Permissions(on_request=decide).decide(question()))
    asyncio.get_running_loop().call_soon(released.set)
    assert await deciding == "allow_once"
    assert threading.main_thread() not in threads
    assert await Permissions(on_request=lambda asked: asked.allow()).decide(question()) == "allow_once"

    def pass_on(asked: PermissionRequest) -> object:
        return user_answering(True)(asked)

    assert await Permissions(on_request=pass_on).decide(question()) == "allow_once"


async def test_a_plain_function_that_blocks_forever_is_a_refusal_in_the_end() -> None:
    released = threading.Event()
    permissions = Permissions(on_request=lambda asked: released.wait(), timeout=0.01)

    assert await permissions.decide(question()) == "reject_once"
    released.set()


@pytest.mark.parametrize(
    ("on_request", "flaw"), [(_returns_yes, "returned 'yes'"), (_raises, "failed with RuntimeError")]
)
async def test_a_function_that_decides_nothing_is_named_in_a_warning(on_request: Any, flaw: str) -> None:
    with pytest.warns(RuntimeWarning, match=rf"{on_request.__name__} {flaw}.*call `request.allow\(\)`") as warned:
        assert await Permissions(on_request=on_request).decide(question()) == "reject_once"
    assert warned[0].filename == __file__


def test_an_object_that_cannot_be_called_is_no_function_to_decide() -> None:
    not_a_function: Any = 42
    with pytest.raises(TypeError, match=r"`on_request` must be a function .*, not 42"):
        Permissions(on_request=not_a_function)


# --- many requests


async def test_an_absent_user_of_one_session_blocks_no_other_session_or_agent() -> None:
    async def absent_in_one(asked: PermissionRequest) -> object:
        if asked.tool.title == "unanswered":
            await asyncio.Event().wait()
        return True

    permissions = Permissions(on_request=absent_in_one)
    waiting = asyncio.ensure_future(permissions.decide(question(session_id="a", title="unanswered")))
    await asyncio.sleep(0)
    behind = asyncio.ensure_future(permissions.decide(question(session_id="a")))

    assert await permissions.decide(question(session_id="b")) == "allow_once"
    assert await permissions.for_agent("another").decide(question(session_id="a")) == "allow_once"
    assert not waiting.done()
    assert not behind.done()
    permissions.cancel("a")
    assert [await waiting, await behind] == [None, None]


async def test_the_time_for_an_answer_begins_when_the_request_is_shown() -> None:
    answers = iter([asyncio.Event().wait, asyncio.Event().wait])

    async def only_the_third(asked: PermissionRequest) -> object:
        for wait in answers:
            await wait()
        return True

    permissions = Permissions(on_request=only_the_third, timeout=0.5)
    deciding = [asyncio.ensure_future(permissions.decide(question())) for _ in range(3)]

    assert [await each for each in deciding] == ["reject_once", "reject_once", "allow_once"]


async def test_a_user_interface_that_shows_a_request_later_starts_its_time_again() -> None:
    async def in_line(asked: PermissionRequest) -> object:
        deadline = asyncio.get_running_loop().time() + 2.2
        while asyncio.get_running_loop().time() < deadline:
            asked.mark_shown()
            await asyncio.sleep(0.01)
        return True

    assert await Permissions(on_request=in_line, timeout=2.0).decide(question()) == "allow_once"


@pytest.mark.fault("PRM-11")
async def test_a_thousand_questions_are_limited_and_can_be_refused_at_once() -> None:
    shown: list[PermissionRequest] = []
    first = asyncio.Event()

    async def slow(asked: PermissionRequest) -> None:
        shown.append(asked)
        first.set()
        await asyncio.Event().wait()

    permissions = Permissions(on_request=slow, max_pending=50)
    deciding = [asyncio.ensure_future(permissions.decide(question())) for _ in range(1000)]
    await first.wait()
    # Those beyond the limit are refused at once, one is shown, and the others wait in line.
    async with asyncio.timeout(60):
        await asyncio.wait(deciding, return_when=asyncio.FIRST_COMPLETED)
        while sum(each.done() for each in deciding) < 950:
            await asyncio.wait([each for each in deciding if not each.done()], return_when=asyncio.FIRST_COMPLETED)
    assert len(shown) == 1
    permissions.reject_all()
    assert {await each for each in deciding} == {"reject_once"}
    assert len(shown) == 1


@pytest.mark.fault("PRM-11")
async def test_a_key_held_down_approves_nothing() -> None:
    counted: list[bool] = []

    def hold_down(asked: PermissionRequest) -> None:
        counted.extend([asked.allow(), asked.choose("allow_always"), asked.reject(), asked.allow()])

    assert await Permissions(on_request=User(hold_down), accept_delay=3600).decide(question()) == "reject_once"
    assert counted == [False, False, True, False]

    permissions = Permissions(accept_delay=3600)
    with permissions.requests() as requests:
        deciding = asyncio.ensure_future(permissions.decide(question()))
        asked = await anext(requests)
        assert not asked.allow()
        assert asked.reject()
        assert await deciding == "reject_once"
