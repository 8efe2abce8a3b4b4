"""Primary keys of events, and the limits of their numbers."""

from __future__ import annotations

import pytest

from duologue.errors import StoreError, StoreFull
from duologue.store.sqlite.rows import MAX_NUMBER, checksum, event_key, seed_of


def test_the_events_of_a_session_lie_between_those_of_its_neighbours() -> None:
    assert event_key(1, MAX_NUMBER) < event_key(2, 0) < event_key(2, 1)


def test_the_space_of_a_session_and_of_a_store_is_finite() -> None:
    with pytest.raises(StoreFull):
        event_key(1, MAX_NUMBER + 1)
    for key in (0, -1, 2**31):
        with pytest.raises(StoreError, match="damaged"):
            event_key(key, 1)


def test_a_checksum_covers_whose_where_and_what() -> None:
    def of(session_id: str = "s", at: int = 1, kind: str = "update", name: str | None = "n", body: bytes = b"x") -> int:
        found = checksum(seed_of(session_id), at, kind, name, body)
        assert found is not None
        return found

    others = [of("t"), of(at=2), of(kind="begin"), of(name=None), of(name=""), of(name="m"), of(body=b"y")]
    assert of() not in others
    assert len({*others}) == len(others)


@pytest.mark.parametrize(("kind", "name", "body"), [(None, "n", b""), ("update", 1, b""), ("update", None, "text")])
def test_impossible_values_of_an_event_have_no_checksum(kind: object, name: object, body: object) -> None:
    assert checksum(1, 1, kind, name, body) is None
