"""What is sent to executors for the values of groups, and what a row gives to each aggregate function."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, StringType

from sluicegate import exact
from sluicegate.aggregate import upkeep
from sluicegate.partials import NotPartial, Partials, _value_of

pytestmark = pytest.mark.unit


class Executor(pickle.Unpickler):
    """Reads what is sent where this package is not."""

    def find_class(self, module: str, name: str) -> Any:
        """What a pickle calls by its name."""
        if module.partition(".")[0] == "sluicegate":
            raise ModuleNotFoundError(module)
        return super().find_class(module, name)


def test_a_variance_is_made_where_this_package_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []

    def udf(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[[Any], None]:
        return lambda _column: sent.append(cloudpickle.dumps(function))  # type: ignore[no-untyped-call]

    monkeypatch.setattr(F, "udf", udf)
    monkeypatch.setattr(F, "col", str)
    grouped = upkeep("SELECT g, count(*) AS n, var_pop(x) AS v FROM t GROUP BY g").grouped
    assert grouped is not None
    partials = Partials(grouped, {"_group_0": StringType(), "_argument_1": DoubleType()})
    partials._made(partials.calls[1])
    [made] = [Executor(io.BytesIO(text)).load() for text in sent]
    sums = {2 * exact.PLACES + exact.COUNT: 2}
    assert (made(sums), made({})) == (0.0, None)
    monkeypatch.setattr(cloudpickle, "register_pickle_by_value", lambda _module: None)
    monkeypatch.setattr(cloudpickle, "unregister_pickle_by_value", lambda _module: None)
    partials._made(partials.calls[1])
    with pytest.raises(ModuleNotFoundError, match=re.escape("sluicegate.exact")):
        Executor(io.BytesIO(sent[1])).load()


def test_an_argument_is_asked_for_only_where_the_filter_is_true() -> None:
    grouped = upkeep(
        "SELECT g, count(CAST(x AS INT)) FILTER (WHERE c) AS n, count_if(x) AS i FROM t GROUP BY g"
    ).grouped
    assert grouped is not None
    assert [_value_of(call) for call in grouped.calls] == [
        "CASE WHEN (c) THEN CASE WHEN (CAST(x AS INT)) IS NOT NULL THEN 1 END END", "CASE WHEN (x) THEN 1 END",
    ]  # fmt: skip


class Looked(Exception):
    """Raised by rows that are looked at."""


class Unread:
    """Rows that nothing is to be asked of."""

    @property
    def withColumn(self) -> Any:
        """What is asked of rows first."""
        raise Looked


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_no_query_has_so_many_functions_that_their_places_are_those_of_squares(beyond: int) -> None:
    """The places of number n are from n times ``PLACES`` on, and those of squares from a million on."""
    count = exact.FUNCTIONS - 1 + beyond
    grouped = upkeep(f"SELECT g, {', '.join(f'sum(x{n})' for n in range(count))} FROM t GROUP BY g").grouped
    assert grouped is not None
    with pytest.raises(NotPartial if beyond > 0 else Looked):
        Partials.of(grouped, Unread())  # type: ignore[arg-type]
    assert ((count + 1) * exact.PLACES <= exact._SQUARE) == (beyond <= 0)
