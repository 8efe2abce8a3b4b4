"""RPC: malformed and unusual envelopes, at both ends."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from duologue.errors import DuologueError, InvalidParams, ProtocolViolation, RequestError
from duologue.jsonrpc.peer import MAX_PENDING
from tests.faults.ends import ECHO, Anything, End, Side, open_end

MIB = 1024 * 1024


def frame(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


@pytest.mark.fault("RPC-01")
@pytest.mark.rule(12)
@pytest.mark.parametrize("batch", [b"[]", b'[{"jsonrpc":"2.0","id":1,"method":"echo"}]', b"[1,2,3]", b" [ ] "])
async def test_a_batch_is_refused_once_and_nothing_in_it_runs(side: Side, batch: bytes) -> None:
    async with open_end(side) as end:
        assert await end.error_for(batch) == (None, -32600)
        assert len(end.calls) == 1  # the probe


@pytest.mark.fault("RPC-02")
@pytest.mark.rule(11)
@pytest.mark.parametrize("value", [b"1", b'"a"', b"null", b"true", b"1.5"])
async def test_a_bare_value_is_rejected_once_by_an_agent_and_stray_output_for_a_client(
    side: Side, value: bytes
) -> None:
    async with open_end(side) as end:
        answers = await end.responses_to(value)
        refused = [(answer["id"], answer["error"]["code"]) for answer in answers]
        assert refused == ([(None, -32600)] if side == "agent" else [])


@pytest.mark.fault("RPC-03")
@pytest.mark.rule(11)
async def test_an_empty_object_is_refused(side: Side) -> None:
    async with open_end(side) as end:
        assert await end.error_for(b"{}") == (None, -32600)


@pytest.mark.fault("RPC-04")
@pytest.mark.parametrize("version", ["", '"jsonrpc":"1.0",', '"jsonrpc":2.0,', '"jsonrpc":null,', '"jsonrpc":"2.00",'])
async def test_another_version_of_json_rpc_is_rejected(side: Side, version: str) -> None:
    async with open_end(side) as end:
        end.expect_response(5)
        assert await end.error_for(f'{{{version}"id":5,"method":"echo"}}'.encode()) == (5, -32600)
        assert await end.error_for(f'{{{version}"method":"note"}}'.encode()) == (None, -32600)
        assert [method for method, _ in end.calls] == ["echo", "echo"]  # the probes


@pytest.mark.fault("RPC-05", "RPC-06")
@pytest.mark.parametrize("id", [{}, {"a": 1}, [], [1], True, False, None, 1.5, 1.0])
async def test_an_id_of_an_invalid_type_is_rejected_and_is_no_notification(side: Side, id: object) -> None:
    async with open_end(side) as end:
        assert await end.error_for(frame(id=id, method="echo")) == (None, -32600)
        assert await end.error_for(frame(id=id, method="note", params={"text": "a"})) == (None, -32600)
        assert "note" not in [method for method, _ in end.calls]


@pytest.mark.fault("RPC-07")
@pytest.mark.rule(7)
async def test_the_ids_1_string_1_and_1_0_are_never_confused(side: Side) -> None:
    async with open_end(side) as end:
        end.ask(1, "hold", text="the number")
        end.ask("1", "hold", text="the text")
        assert await end.error_for(b'{"jsonrpc":"2.0","id":1.0,"method":"hold","params":{}}') == (None, -32600)
        end.release.set()
        answers = await end.next_frames(2)
        assert {(type(a["id"]), a["result"]["text"]) for a in answers} == {(int, "the number"), (str, "the text")}


@pytest.mark.fault("RPC-08")
@pytest.mark.parametrize(
    "id", [2**53 + 1, 2**63, 2**64 + 1, -1, -(2**63), 0, "", "a" * 1024, "ü" * 1024, "\n\u2028", 10**399]
)
async def test_unusual_ids_are_repeated_exactly(side: Side, id: int | str) -> None:
    async with open_end(side) as end:
        end.ask(id, text="x")
        answer = await end.next()
        assert answer["id"] == id
        assert type(answer["id"]) is type(id)


@pytest.mark.fault("RPC-08")
@pytest.mark.parametrize("id", ["a" * 1025, 10**400, -(10**400), 10**4000])
async def test_ids_that_are_too_long_are_rejected_and_not_repeated(side: Side, id: int | str) -> None:
    async with open_end(side) as end:
        assert await end.error_for(frame(id=id, method="echo")) == (None, -32600)


@pytest.mark.fault("RPC-09", "RPC-10")
async def test_an_id_in_flight_is_accepted_once_and_again_after_its_response(side: Side) -> None:
    async with open_end(side) as end:
        end.ask(1, "hold", text="first")
        assert await end.error_for(frame(id=1, method="hold", params={"text": "second"})) == (None, -32600)
        end.release.set()
        assert (await end.next())["result"] == {"text": "first"}
        end.ask(1, "echo", text="third")
        assert (await end.next())["result"] == {"text": "third"}
        assert [params.text for method, params in end.calls if method == "hold"] == ["first"]


@pytest.mark.fault("RPC-11")
@pytest.mark.parametrize("method", ["absent", "", 5, None, ["echo"], "m" * MIB])
async def test_an_invalid_method_name_is_rejected(side: Side, method: object) -> None:
    async with open_end(side) as end:
        members = {} if method == "absent" else {"method": method}
        end.expect_response(5)
        assert await end.error_for(frame(id=5, **members)) == (5, -32600)


@pytest.mark.fault("RPC-12", "RPC-22")
@pytest.mark.rule(13, 14)
@pytest.mark.parametrize(
    "method",
    [
        "foo/bar",
        "$/progress",
        "_x",
        "__class__",
        "__init__",
        "_private",
        "connection",
        "requests",
        "on",
        "ECHO",
        "echo ",
    ],
)
async def test_an_unknown_method_is_not_found_and_an_unknown_notification_ignored(side: Side, method: str) -> None:
    async with open_end(side) as end:
        assert await end.responses_to(frame(method=method), frame(method=method, params=5)) == []
        end.expect_response(5)
        assert await end.error_for(frame(id=5, method=method)) == (5, -32601)


@pytest.mark.fault("RPC-13")
@pytest.mark.rule(9, 15)
@pytest.mark.parametrize("params", ["text", 5, [], [1], True])
async def test_params_that_are_no_object_are_invalid_and_a_notification_with_them_is_dropped(
    side: Side, params: object
) -> None:
    async with open_end(side) as end:
        assert await end.responses_to(frame(method="note", params=params)) == []
        end.expect_response(5)
        assert await end.error_for(frame(id=5, method="echo", params=params)) == (5, -32602)
        assert "note" not in [method for method, _ in end.calls]


@pytest.mark.fault("RPC-13")
@pytest.mark.parametrize("params", [{}, {"params": None}, {"params": {}}])
async def test_no_params_are_empty_params(side: Side, params: dict[str, Any]) -> None:
    async with open_end(side) as end:
        end.expect_response(5)
        end.send(frame(id=5, method="echo", **params))
        assert (await end.next())["result"] == {}


async def call_answered_with(end: End, *frames: dict[str, Any]) -> Anything:
    """Send a request from this end and answer it with these messages, each with its id unless it has one."""
    call = asyncio.ensure_future(end.connection.request(ECHO, Anything(text="mine")))
    id = (await end.next())["id"]
    end.send(*(frame(**{"id": id, **members}) for members in frames))
    return await call


@pytest.mark.fault("RPC-14")
@pytest.mark.rule(16)
async def test_unmatched_and_second_responses_are_dropped_and_counted(side: Side) -> None:
    async with open_end(side) as end:
        strays: list[dict[str, Any]] = [
            {"id": 10**6, "result": {}},
            {"id": "1", "result": {}},
            {"id": None, "error": {"code": 1}},
        ]
        answers = [*strays, {"result": {"text": "mine"}}, {"result": {"text": "second"}}, {"error": {"code": 1}}]
        assert await call_answered_with(end, *answers) == Anything(text="mine")
        await end.probe()
        assert end.connection._peer.unmatched_responses == 5


@pytest.mark.fault("RPC-15")
@pytest.mark.parametrize(
    "members", [{"result": {}, "error": {"code": 1, "message": "x"}}, {}, {"error": None}, {"result": 1, "error": 2}]
)
async def test_a_response_with_both_or_neither_of_result_and_error_fails_its_call(
    side: Side, members: dict[str, Any]
) -> None:
    async with open_end(side) as end:
        with pytest.raises(ProtocolViolation):
            await call_answered_with(end, members)


@pytest.mark.fault("RPC-16")
@pytest.mark.rule(17)
@pytest.mark.parametrize(
    "error",
    [
        *("text", 5, [], {}, {"message": "no code"}, {"code": "1", "message": ""}, {"code": 1.5}, {"code": None}),
        *({"code": 2**40, "message": "wide"}, {"code": -(2**70)}, {"code": 1, "message": {"a": 1}}),
    ],
    ids=repr,
)
async def test_a_malformed_error_object_fails_its_call_with_a_proper_error(side: Side, error: object) -> None:
    async with open_end(side) as end:
        with pytest.raises(DuologueError) as caught:
            await call_answered_with(end, {"error": error})
        assert isinstance(caught.value, (ProtocolViolation, RequestError))
        assert 0 < len(str(caught.value)) < 300


@pytest.mark.fault("RPC-16")
async def test_ten_mebibytes_of_error_data_reach_the_caller_and_at_most_a_page_of_them_any_text(
    side: Side, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(1)
    async with open_end(side) as end:
        data = "x" * (10 * MIB)
        with pytest.raises(InvalidParams) as caught:
            await call_answered_with(end, {"error": {"code": -32602, "message": "short", "data": data}})
        assert caught.value.data == data
        assert str(caught.value).startswith("short: xxx")
        assert len(str(caught.value)) < 3000
        assert len(repr(caught.value)) < 300
    assert max(len(record.getMessage()) for record in caplog.records) < 500


@pytest.mark.fault("RPC-17")
@pytest.mark.rule(87)
async def test_a_response_to_an_id_of_the_other_direction_matches_nothing(side: Side) -> None:
    async with open_end(side) as end:
        call = asyncio.ensure_future(end.connection.request(ECHO, Anything()))
        id = (await end.next())["id"]
        end.ask("theirs", "hold", text="held")
        end.ask(id, "hold", text="the same number")
        end.send(frame(id="theirs", result={}))
        await end.probe()
        assert end.connection._peer.unmatched_responses == 1
        assert not call.done()
        end.send(frame(id=id, result={"text": "mine"}))
        assert (await call).text == "mine"
        end.release.set()
        assert {answer["result"]["text"] for answer in await end.next_frames(2)} == {"held", "the same number"}


@pytest.mark.fault("RPC-18")
async def test_a_message_in_the_wrong_form_is_never_executed(side: Side) -> None:
    async with open_end(side) as end:
        assert await end.responses_to(frame(method="echo", params={"text": "no id"})) == []
        end.expect_response(5)
        assert await end.error_for(frame(id=5, method="note", params={"text": "an id"})) == (5, -32601)
        assert [params.text for _, params in end.calls] == ["probe 1", "probe 2"]


@pytest.mark.fault("RPC-19")
async def test_ten_thousand_requests_at_once_are_bounded_and_notifications_keep_their_order(side: Side) -> None:
    async with open_end(side) as end:
        for number in range(10_000):
            end.ask(number, "hold", text=str(number))
            end.send(frame(method="note", params={"text": str(number)}))
        refused = await end.next_frames(10_000 - MAX_PENDING)
        assert {answer["error"]["code"] for answer in refused} == {-32603}
        assert sorted(answer["id"] for answer in refused) == list(range(MAX_PENDING, 10_000))
        assert all("busy" in answer["error"]["message"] for answer in refused)
        await end.until_called(10_000 + MAX_PENDING)
        assert sum(method == "hold" for method, _ in end.calls) == MAX_PENDING
        notes = [params.text for method, params in end.calls if method == "note"]
        assert notes == [str(number) for number in range(10_000)]
        end.release.set()
        answered = await end.next_frames(MAX_PENDING)
        texts = {answer["id"]: answer["result"]["text"] for answer in answered}
        assert texts == {number: str(number) for number in range(MAX_PENDING)}
        # All places are free again, and no request was answered twice.
        end.ask(0, "hold", text="again")
        assert [answer["id"] for answer in await end.next_frames(1)] == [0]
