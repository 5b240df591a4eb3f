"""What a person reads when Spark refuses something."""

from __future__ import annotations

import pytest

from sluicegate.errors import QueryError
from sluicegate.spark import spark_errors

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("layer", "helps"), [("gold", "try_cast"), ("silver", "then the row is quarantined")])
def test_a_value_that_does_not_fit_is_told_with_what_helps_in_that_layer(layer: str, helps: str) -> None:
    error = spark_errors.readable(RuntimeError("[CAST_INVALID_INPUT] The value 'x' cannot be cast"), layer, "days")
    assert isinstance(error, QueryError)
    assert error.hint is not None
    assert helps in error.hint
    assert ("then the row" in error.hint) == (layer == "silver")
