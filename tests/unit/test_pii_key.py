"""The key of pseudonyms, without Spark: from how many bytes on it is one."""

from __future__ import annotations

import pytest

from sluicegate import pii_key
from sluicegate.errors import PiiKeyMissing

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize("letter", ["k", "ü"])
def test_a_key_has_at_least_as_many_bytes_as_the_SHORTEST(
    monkeypatch: pytest.MonkeyPatch, letter: str, beyond: int
) -> None:
    """Bytes, not characters. Where it is too short there is no fingerprint, so no table is taken for made with it."""
    count = pii_key.SHORTEST + beyond
    key = letter * (count // len(letter.encode()))
    key += "k" * (count - len(key.encode()))
    monkeypatch.setenv(pii_key.VARIABLE, key)
    if beyond >= 0:
        assert pii_key.key() == key.encode()
        assert len(pii_key.fingerprint()) == 8
        return
    with pytest.raises(PiiKeyMissing, match=r"too short: it needs at least 16 bytes") as error:
        pii_key.key()
    assert key not in error.value.for_people()
    assert pii_key.fingerprint() == ""
