"""The bytes of variants: equal where type and value are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import VariantVal

from sluicegate.frames.difference.variants import encode, encode_all

pytestmark = pytest.mark.unit

# Few values, so that equal ones meet, and texts and numbers on both sides of the sizes that are stored otherwise.
leaves = st.sampled_from(
    [None, True, False, 0, 1, -1, 127, 128, -129, 32768, 2**31, 2**62, "", "1", "a", "a" * 63, "a" * 64]
)
values: st.SearchStrategy[Any] = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab1"), inner), max_leaves=4
)


def of(text: str) -> bytes:
    variant = VariantVal.parseJson(text)
    return encode(variant.value, variant.metadata)


def turned(value: Any) -> Any:
    """The same value with its fields in the other order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(one) for one in value] if isinstance(value, list) else value


@given(values, values)
def test_the_bytes_are_equal_where_the_values_are(one: Any, other: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (of(json.dumps(one)) == of(json.dumps(other))) is same
    assert of(json.dumps(one)) == of(json.dumps(turned(one)))


@pytest.mark.parametrize("fields", [1, 255, 256, 70_000])
def test_objects_and_arrays_of_any_size(fields: int) -> None:
    many = {f"field {number}": number for number in range(fields)}
    text = json.dumps({"many": many, "all": [*many.values()]})
    encoded_text = of(text)
    assert encoded_text == of(json.dumps(turned(json.loads(text))))
    assert encoded_text != of(text.replace(f'"field {fields - 1}": {fields - 1}', f'"field {fields - 1}": 0.5'))
    assert encoded_text != of(text.replace(f"{fields - 1}]", "0.5]"))


def test_the_type_of_a_number_counts_and_zeros_behind_a_decimal_do_not() -> None:
    assert of("1.50") == of("1.5") != of("1.6")
    assert len({of("1"), of("1.0"), of("1e0"), of('"1"')}) == 4
    assert len({of("0.0"), of("0.00")}) == 1


def test_null_is_none_and_a_null_of_json_is_one() -> None:
    assert encode_all(None) == encode_all([]) == encode_all([None]) == []
    assert encode_all([VariantVal.parseJson("null"), None]) == [of("null")]


def test_a_type_that_is_not_known_is_refused() -> None:
    with pytest.raises(ValueError, match="type 40"):
        encode(bytes([40 << 2]), VariantVal.parseJson("1").metadata)
