"""What a person reads when Spark refuses something."""

from __future__ import annotations

import pytest

from sluicegate.errors import QueryError
from sluicegate.spark import spark_errors

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(("layer", "helps"), [("gold", "try_cast"), ("silver", "quarantines its record")])
def test_a_value_that_does_not_fit_is_told_with_what_helps_in_that_layer(layer: str, helps: str) -> None:
    error = spark_errors.translate_error(
        RuntimeError("[CAST_INVALID_INPUT] The value 'x' cannot be cast"), layer, "days"
    )
    assert isinstance(error, QueryError)
    assert error.hint is not None
    assert helps in error.hint
    assert ("quarantines its record" in error.hint) == (layer == "silver")


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("[INVALID_INDEX_OF_ZERO] The index 0 is invalid. SQLSTATE: 22003", True),
        ("[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row returned. SQLSTATE: 21000", True),
        ("Job aborted.\nSparkRuntimeException: [USER_RAISED_EXCEPTION] no SQLSTATE: P0001\n\tat org.apache", True),
        ("[DELTA_VERSION_NOT_FOUND] Cannot time travel to version 7. SQLSTATE: 22003", False),
        ("[TASK_WRITE_FAILED] Task failed while writing rows. SQLSTATE: 58030", False),
        ("ExecutorLostFailure (executor 1 exited)", False),
    ],
)
def test_a_value_that_stops_a_query_is_known_by_its_sql_state(text: str, stops: bool) -> None:
    raised = RuntimeError(text)
    assert spark_errors.is_value_error(raised) is stops
    said = spark_errors.translate_error(raised, "silver", "days")
    assert (said is raised) is not stops
    if isinstance(said, QueryError):
        assert said.cause == next(line for line in text.splitlines() if "SQLSTATE" in line)
