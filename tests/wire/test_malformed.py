"""Malformed messages, and the exact text of their errors."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET, Raw, UnsetType

from duologue.errors import InvalidParams
from duologue.schema.codec import decode
from tests.schema.official import UNSTABLE
from tests.wire.vectors import HERE


class Malformed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bad message: as JSON, or as text or bytes where it is not even that."""

    clause: str
    version: str
    definition: str
    error: str
    wire: Raw | UnsetType = UNSET
    text: str = ""
    hex: str = ""

    @property
    def raw(self) -> bytes:
        if not isinstance(self.wire, UnsetType):
            return bytes(self.wire)
        return bytes.fromhex(self.hex) or self.text.encode()


MALFORMED = [
    pytest.param(entry, id=f"{path.stem}-{entry.clause}")
    for path in sorted((HERE / "malformed").glob("*.json"))
    for entry in msgspec.json.decode(path.read_bytes(), type=list[Malformed])
]


@pytest.mark.parametrize("entry", MALFORMED)
def test_a_malformed_message_is_rejected_with_this_text(entry: Malformed) -> None:
    official = UNSTABLE[entry.version]
    type_ = official.type_of(official.schema.roots[entry.definition])

    with pytest.raises(InvalidParams) as caught:
        decode(type_, entry.raw)

    assert str(caught.value) == entry.error
    assert caught.value.code == -32602
