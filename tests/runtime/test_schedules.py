"""The order contract under random schedules: whatever arrives in whatever slices, however long handlers wait."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duologue.runtime.connection import Connection
from duologue.runtime.handlers import Context, Handlers
from duologue.schema.base import Method
from duologue.transports.memory import MemoryTransport, memory_pair
from tests.runtime.messages import FORK, NEW, PING, PROMPT, UPDATE, Nothing, Ping, Scoped, Update, frame

QUESTION = Method("question", Update, Nothing, side="client")
SESSIONS = ["a", "b", "c"]
Kind = Literal["prompt", "ping", "new", "fork"]
TURNS = 30
"""More turns of the event loop than anything needs that has nothing to wait for."""


@dataclass(frozen=True)
class Ask:
    """The client sends a request; `session` is what it is about, or what its answer will introduce."""

    kind: Kind
    session: str


@dataclass(frozen=True)
class SendUpdate:
    """The agent sends an update, whose handler waits so many turns, or until the very end."""

    session: str
    waits: int | None


@dataclass(frozen=True)
class Reply:
    """The agent answers one of the requests still open."""

    which: int
    is_success: bool


@dataclass(frozen=True)
class Question:
    """The agent asks something that takes a place among the updates of its session."""

    session: str


@dataclass(frozen=True)
class YieldToLoop:
    """Everybody gets a few turns of the event loop; what came since the last time is read in one go."""

    turns: int


Act = Ask | SendUpdate | Reply | Question | YieldToLoop
sessions = st.sampled_from(SESSIONS)
acts = (
    st.builds(Ask, st.sampled_from(["prompt", "ping", "new", "fork"]), sessions)
    | st.builds(SendUpdate, sessions, st.integers(0, 3) | st.integers(0, 3) | st.none())
    | st.builds(Reply, st.integers(0, 3), st.sampled_from([True, True, True, False]))
    | st.builds(Question, sessions)
    | st.builds(YieldToLoop, st.integers(1, 4))
)


def random_script(chance: random.Random, length: int) -> list[Act]:
    """Much longer than what hypothesis draws, and not to be shrunk."""
    script: list[Act] = []
    for _ in range(length):
        session = chance.choice(SESSIONS)
        kind: Kind = chance.choice(["prompt", "ping", "new", "fork"])
        choices: list[Act] = [
            Ask(kind, session),
            SendUpdate(session, chance.choice([0, 0, 1, 2, 3, None] if chance.random() < 0.1 else [0, 1, 2])),
            SendUpdate(session, chance.randrange(3)),
            Reply(chance.randrange(4), chance.random() < 0.8),
            Reply(chance.randrange(4), chance.random() < 0.8),
            Question(session),
            YieldToLoop(chance.randrange(1, 5)),
        ]
        script.append(chance.choice(choices))
    return script


@dataclass
class Asked:
    """A request of the client: the position of its response on the wire, and when it returned."""

    ask: Ask
    id: int
    wait: asyncio.Future[Any]
    answered_at: int | None = None
    returned_at: int | None = None


@dataclass
class Run:
    """The events of a run: updates and responses by their position on the wire, handlers by their order in time."""

    sent: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    requests: list[Asked] = field(default_factory=list[Asked])
    log: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    position: int = 0
    end: asyncio.Event = field(default_factory=asyncio.Event)
    waits: dict[int, int | None] = field(default_factory=dict[int, "int | None"])
    questions: dict[int, str] = field(default_factory=dict[int, str])
    """The session of each question, by its place on the wire."""
    unopened: set[int] = field(default_factory=set[int])
    """The questions whose sessions may have been about to be opened when they were answered."""

    @property
    def length(self) -> int:
        """How long the log is when all is done."""
        return 2 * (len(self.sent) + len(self.questions)) + len(self.requests)

    def note(self, what: str, number: int) -> int:
        self.log.append((what, number))
        return len(self.log) - 1


async def play(script: list[Act]) -> Run:
    """Let a client live through the script, with an agent that is nothing but frames."""
    run = Run()
    handlers = Handlers()

    @handlers.on(UPDATE)
    async def update(context: Context, params: Update) -> None:
        number = int(params.text)
        run.note("begin", number)
        waits = run.waits[number]
        if waits is None:
            await run.end.wait()
        for _ in range(waits or 0):
            await asyncio.sleep(0)
        run.note("end", number)

    def at_position(context: Context, params: Update) -> int:
        return run.note("place", int(params.text))

    @handlers.on(QUESTION)
    async def question(context: Context, params: Update) -> Nothing:
        number = int(params.text)
        assert context.position is not None
        if context.connection.internals.is_opening(params.session_id):
            run.unopened.add(number)
        else:
            at = await context.position
            assert run.log[at] == ("place", number)
        run.note("answer", number)
        return Nothing()

    handlers.positions[QUESTION.name] = at_position
    near, far = memory_pair()
    async with asyncio.timeout(60), Connection(near, handlers) as client, far:
        for act in script:
            await perform(act, run, client, far)
        await yield_to_loop(TURNS)
        check_nothing_waits_needlessly(run)
        run.end.set()
        for asked in run.requests:
            if asked.answered_at is None:
                answer(run, asked, far, is_success=True)
        await asyncio.wait([asked.wait for asked in run.requests] or [asyncio.ensure_future(yield_to_loop(1))])
        while len(run.log) < run.length:
            await yield_to_loop(1)
    return run


async def perform(act: Act, run: Run, client: Connection, far: MemoryTransport) -> None:
    match act:
        case Ask():
            number = len(run.requests)
            wait = asyncio.ensure_future(ask(run, client, act, number))
            run.requests.append(Asked(act, number + 1, wait))
            await asyncio.sleep(0)  # so that ids are given in order
        case SendUpdate():
            run.sent.append((run.position, act.session))
            run.waits[run.position] = act.waits
            far.send(frame(method="update", params={"sessionId": act.session, "text": str(run.position)}))
            run.position += 1
        case Question():
            run.questions[run.position] = act.session
            params = {"sessionId": act.session, "text": str(run.position)}
            far.send(frame(method="question", id=f"q{run.position}", params=params))
            run.position += 1
        case Reply():
            open_ones = [asked for asked in run.requests if asked.answered_at is None]
            if open_ones:
                answer(run, open_ones[act.which % len(open_ones)], far, is_success=act.is_success)
        case YieldToLoop():
            await yield_to_loop(act.turns)


async def yield_to_loop(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def ask(run: Run, client: Connection, act: Ask, number: int) -> None:
    try:
        match act.kind:
            case "prompt":
                await client.request(PROMPT, Update(session_id=act.session, text=""))
            case "ping":
                await client.request(PING, Ping())
            case "new":
                await client.request(NEW, Nothing())
            case "fork":
                await client.request(FORK, Scoped(session_id="origin"))
    except Exception as error:
        assert str(error) == "no"
    run.requests[number].returned_at = run.note("return", number)


def answer(run: Run, asked: Asked, far: MemoryTransport, *, is_success: bool) -> None:
    asked.answered_at = run.position
    run.position += 1
    result = {"sessionId": asked.ask.session} if asked.ask.kind in ("new", "fork") else {}
    outcome: dict[str, Any] = {"result": result} if is_success else {"error": {"code": 1, "message": "no"}}
    far.send(frame(id=asked.id, **outcome))
    if asked.ask.kind in ("new", "fork") and not is_success:
        asked.ask = Ask("ping", asked.ask.session)  # it introduces nothing, so nothing stands before it


def check_nothing_waits_needlessly(run: Run) -> None:
    """Check that in the end only items behind a blocked update of their own session still wait.

    Updates of a session also wait while that session may be about to be opened; responses never do.
    """
    answered = {number for kind, number in run.log if kind == "answer"}
    for asked_at, session in run.questions.items():
        if asked_at not in answered:
            assert any(
                run.waits[position] is None and of == session and position < asked_at for position, of in run.sent
            )
    for asked in run.requests:
        if asked.answered_at is None or asked.returned_at is not None:
            continue
        assert asked.ask.kind != "ping"
        assert any(
            run.waits[position] is None and session == asked.ask.session and position < asked.answered_at
            for position, session in run.sent
        )


def check_order(run: Run) -> None:
    when: dict[str, dict[int, int]] = {"begin": {}, "end": {}, "return": {}, "place": {}, "answer": {}}
    for at, (kind, number) in enumerate(run.log):
        when[kind][number] = at
    for session in SESSIONS:
        handled = [number for kind, number in run.log if kind == "begin" and (number, session) in run.sent]
        assert handled == [position for position, of in run.sent if of == session]
        for one, next_one in pairwise(handled):
            assert when["end"][one] < when["begin"][next_one]
    for asked_at, session in run.questions.items():
        for position, of in run.sent:
            if of == session and position < asked_at:
                assert when["end"][position] < when["place"][asked_at]
            elif of == session:
                assert when["place"][asked_at] < when["begin"][position]
        assert when["place"][asked_at] < when["answer"][asked_at] or asked_at in run.unopened
    for asked in run.requests:
        assert asked.returned_at is not None
        assert asked.answered_at is not None
        if asked.ask.kind != "ping":
            for position, session in run.sent:
                if session == asked.ask.session and position < asked.answered_at:
                    assert when["end"][position] < asked.returned_at


def check(script: list[Act]) -> int:
    run = asyncio.run(play(script))
    check_order(run)
    assert len(run.log) == run.length  # each once, and nothing else
    return len(run.sent)


@given(st.lists(acts, max_size=15) | st.lists(acts, min_size=15, max_size=40))
def test_under_any_schedule_the_order_contract_holds(script: list[Act]) -> None:
    check(script)


@pytest.mark.fault("ORD-01")
def test_long_random_schedules_keep_the_order_contract(chaos_factor: int, record_property: Any) -> None:
    count = 100 * chaos_factor
    record_property("count", count)
    assert sum(check(random_script(random.Random(seed), 150)) for seed in range(count)) > count * 30


def test_a_buffered_update_is_not_overtaken_once_a_request_names_its_session() -> None:
    """Found by the random schedules."""
    check([Ask("new", "a"), SendUpdate("b", 2), Ask("prompt", "b"), SendUpdate("b", 0), Reply(1, is_success=True)])
