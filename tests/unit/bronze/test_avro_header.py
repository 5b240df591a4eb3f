"""The head of an Avro file, which says what the columns of its records are."""

from __future__ import annotations

from io import BytesIO

import pytest

from sluicegate.bronze import avro_header

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"Obj",
        b"Obj\x02",
        b"Obj\x01",
        b"Obj\x01\x00",
        b"Obj\x01\xff",
        b"Obj\x01\x02\x03",
        b"Obj\x01" + b"\xff" * 20,
    ],
)
def test_a_head_that_is_none(head: bytes) -> None:
    with pytest.raises(ValueError, match=r"magic|unterminated|schema|damaged|truncated"):
        avro_header.schema(BytesIO(head))


def test_a_head_in_blocks_with_their_sizes() -> None:
    """As some writers give them, so that a reader can skip a block."""
    entry = b"\x16avro.schema" + b"\x10" + b'"string"'[:8]
    assert avro_header.schema(BytesIO(b"Obj\x01" + b"\x01" + b"\x2a" + entry + b"\x00")) == '"string"'


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_a_head_has_no_text_longer_than_the_LARGEST(monkeypatch: pytest.MonkeyPatch, beyond: int) -> None:
    monkeypatch.setattr(avro_header, "LARGEST", 20)
    text = b'"' + b"x" * (avro_header.LARGEST + beyond - 2) + b'"'
    head = BytesIO(b"Obj\x01" + b"\x02" + b"\x16avro.schema" + bytes([2 * len(text)]) + text + b"\x00")
    if beyond > 0:
        with pytest.raises(ValueError, match="damaged"):
            avro_header.schema(head)
    else:
        assert avro_header.schema(head) == text.decode()
