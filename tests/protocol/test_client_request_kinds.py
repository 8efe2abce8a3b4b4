"""A request of an agent is declared on its class; nothing that depends on the requests may have forgotten one."""

from __future__ import annotations

from typing import Any

import pytest

from duologue.client.request_handler import ClientRequestHandler
from duologue.protocol import client_requests
from duologue.protocol.client_requests import KINDS, ClientRequest
from duologue.protocol.values import ClientCapabilities
from duologue.schema import v1, v2


def test_every_class_of_request_is_listed() -> None:
    classes = {each for each in vars(client_requests).values() if isinstance(each, type) and each is not ClientRequest}

    assert {each for each in classes if issubclass(each, ClientRequest)} == set(KINDS)


def test_the_client_answers_every_request() -> None:
    handler = ClientRequestHandler("agent", None, None, None, None, None, None)

    assert set(handler._answers) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_has_the_fields_of_the_wire_in_each_version_that_has_it(kind: Any) -> None:
    methods = [getattr(schema, kind.method) for schema in (v1, v2) if hasattr(schema, kind.method)]

    assert methods
    assert kind.capability in ClientCapabilities.__struct_fields__
    for method in methods:
        assert set(kind.__struct_fields__) == set(method.params.__struct_fields__) - {"meta"}
        assert not isinstance(kind.result, str) or kind.result in method.result.__struct_fields__
