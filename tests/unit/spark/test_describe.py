"""Statements that describe a table: of texts that files bring, Spark replaces nothing."""

from __future__ import annotations

import pytest

from sluicegate.spark.describe import _property_list

pytestmark = pytest.mark.unit


def test_no_text_is_a_variable_of_spark() -> None:
    assert _property_list({"a": "it's ${env:HOME}"}) == r"'a' = 'it\'s $\{env:HOME}'"
