"""Find the recorded exchange that a message of the client asks for, or check that it is the very next one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from duologue.trace.frames import TracedFrame
from duologue.trace.identity import IdNumbers, IdTranslator, kind_of, map_strings
from duologue.trace.replay.difference import differences
from duologue.trace.replay.script import Exchange, ReplayScript, members, message_of

NOT_MATCHED = ("_meta", "sessionId", "cwd")
"""Params that do not decide which of several recorded requests is meant."""


class ExchangeMatcher:
    """Finds exchanges by method, session and params; keeps the translation of the ids of each session.

    Args:
        script: The recording.
        keeps_paths: Do not translate the recorded working directory into the client's.
    """

    def __init__(self, script: ReplayScript, *, keeps_paths: bool) -> None:
        self._keeps_paths = keeps_paths
        self._version = script.version
        self._uses: Counter[int] = Counter()
        self._keys: dict[int, bytes] = {}
        self._translators: dict[str, IdTranslator] = {}
        """Translation of the ids of each session of the client."""
        self._recorded: dict[str, str] = {}
        """The recorded session of each session of the client."""
        self._exchanges: dict[tuple[str, bool], list[tuple[TracedFrame, Exchange]]] = {}
        for exchange in script.exchanges:
            if (request := exchange.request) is not None:
                same = self._exchanges.setdefault((request.method, request.kind == "request"), [])
                same.append((request, exchange))

    def find(
        self, method: str, params: dict[str, Any], *, is_request: bool, expected: TracedFrame | None = None
    ) -> tuple[Exchange, IdTranslator] | None:
        """Return the exchange to play and the translation of its ids; None if nothing of the kind was recorded.

        An exchange with equal params comes first, then one that was not played yet, then one of the session.
        """
        pool = self._exchanges.get((method, is_request))
        if pool is None:
            return None
        session = params.get("sessionId")
        live = session if isinstance(session, str) else ""
        recorded = self._recorded.get(live)
        key = key_of_params(params)
        request, exchange = min(
            pool,
            key=lambda each: (
                each[0] is not expected,
                self._key_of(each[0]) != key,
                self._uses[each[0].number],
                recorded is not None and each[0].session != recorded,
                each[0].number,
            ),
        )
        ids = self._translators.setdefault(live, IdTranslator()) if live else IdTranslator()
        if live:
            self._recorded.setdefault(live, request.session)
        before = members(message_of(request).get("params"))
        ids.pair(before, params)
        if not self._keeps_paths and isinstance(params.get("cwd"), str) and isinstance(before.get("cwd"), str):
            ids.pair_paths(before["cwd"], params["cwd"])
        if self._uses[request.number]:
            self._renew(exchange, ids, self._uses[request.number] + 1, is_new=not live)
        self._uses[request.number] += 1
        return exchange, ids

    def learn_session(self, response: TracedFrame, live: object, ids: IdTranslator) -> None:
        """Remember the session that a response has opened."""
        if isinstance(live, str) and live not in self._translators:
            self._translators[live] = ids
            self._recorded[live] = response.session

    def _key_of(self, request: TracedFrame) -> bytes:
        if request.number not in self._keys:
            self._keys[request.number] = key_of_params(members(message_of(request).get("params")))
        return self._keys[request.number]

    def _renew(self, exchange: Exchange, ids: IdTranslator, use: int, *, is_new: bool) -> None:
        """Give the ids that the agent made up other values, because the client knows these already."""
        kinds = ["toolcall", "message"] + ["terminal"] * (self._version > 1) + ["session"] * is_new
        for step in exchange.steps:
            if step.dir == "to_client":
                for kind, id_ in _ids_in(message_of(step)):
                    if kind in kinds:
                        ids.pair_ids(kind, id_, f"{id_}-{use}")


def key_of_params(params: dict[str, Any]) -> bytes:
    """Return what must be equal in two params that ask for the same, whatever their ids are."""
    compared = {name: value for name, value in params.items() if name not in NOT_MATCHED}
    return msgspec.json.encode(map_strings(compared, lambda name, text: kind_of(name) or text), order="deterministic")


def _ids_in(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    found: dict[tuple[str, str], None] = {}

    def note(name: str, text: str) -> str:
        if kind := kind_of(name):
            found[kind, text] = None
        return text

    map_strings(message, note)
    yield from found


class StrictMatcher:
    """Checks that each message of the client is the next one of the recording.

    Args:
        script: The recording.
        ignored: Members and paths that are not compared.
        keeps_paths: Do not translate the recorded working directory into the client's.

    Attributes:
        matched: The recorded message that was matched last.
    """

    def __init__(self, script: ReplayScript, ignored: Sequence[str], *, keeps_paths: bool) -> None:
        self.matched: TracedFrame | None = None
        self._calls = script.calls
        self._ignored = ignored
        self._keeps_paths = keeps_paths
        self._position = 0
        self._recorded, self._live = IdNumbers(), IdNumbers()
        self._paths = IdTranslator()

    def check_call(self, method: str, params: dict[str, Any], *, is_request: bool) -> str:
        """Return how a request or notification differs from the next one; empty if it does not."""
        kind = "request" if is_request else "notification"
        if self._position == len(self._calls):
            return f"the recording has no further message of the client, but received the {kind} {method}"
        call = self._calls[self._position]
        if (call.method, call.kind) != (method, kind):
            return f"frame {call.number}: expected {self.missing()}, received the {kind} {method}"
        self.matched = call
        self._position += 1
        before = members(message_of(call).get("params"))
        if not self._keeps_paths and isinstance(before.get("cwd"), str) and isinstance(params.get("cwd"), str):
            self._paths.pair_paths(before["cwd"], params["cwd"])
        return self._compare(call, before, params, "$.params")

    def check_answer(self, recorded: TracedFrame, message: dict[str, Any]) -> str:
        """Return how a response differs from the recorded one; empty if it does not."""
        expected = message_of(recorded)
        part = "result" if "result" in expected else "error"
        if part not in message:
            other = "an error, received a result" if part == "error" else "a result, received an error"
            return f"frame {recorded.number} (response to {recorded.method}): expected {other}"
        if part == "error":
            codes = [members(each.get("error")).get("code") for each in (expected, message)]
            return self._compare(recorded, codes[0], codes[1], "$.error.code")
        return self._compare(recorded, expected["result"], message["result"], "$.result")

    def missing(self) -> str:
        """Describe the next message that the recording expects of the client; empty if there is none."""
        if self._position == len(self._calls):
            return ""
        call = self._calls[self._position]
        return f"the {call.kind} {call.method} (frame {call.number})"

    def _compare(self, frame: TracedFrame, expected: Any, received: Any, path: str) -> str:
        one = self._recorded.number(self._paths.translate(expected))
        found = next(differences(one, self._live.number(received), self._ignored, path), None)
        what = frame.method if frame.answers is None else f"response to {frame.method}"
        return "" if found is None else f"frame {frame.number} ({what}): {found}"
