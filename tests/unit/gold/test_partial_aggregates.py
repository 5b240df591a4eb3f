"""What is sent to executors for the values of groups, and what a row gives to each aggregate function."""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, StringType

from sluicegate.gold import exact_sum, partial_aggregates
from sluicegate.gold.partial_aggregates import NotPartial, Partials, _value_of
from sluicegate.spark_sql.refresh.strategy import refresh_strategy

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
    grouped = refresh_strategy("SELECT g, count(*) AS n, var_pop(x) AS v FROM t GROUP BY g").grouped
    assert grouped is not None
    asked = Partials(grouped, {"_group_0": StringType(), "_argument_1": DoubleType()})
    asked._value_column(asked.calls[1])
    [made] = [Executor(io.BytesIO(text)).load() for text in sent]
    sums = {2 * exact_sum.PLACES + exact_sum.COUNT: 2}
    assert (made(sums), made({})) == (0.0, None)
    monkeypatch.setattr(cloudpickle, "register_pickle_by_value", lambda _module: None)
    monkeypatch.setattr(cloudpickle, "unregister_pickle_by_value", lambda _module: None)
    asked._value_column(asked.calls[1])
    with pytest.raises(ModuleNotFoundError, match=re.escape("sluicegate.gold.exact_sum")):
        Executor(io.BytesIO(sent[1])).load()


def test_an_argument_is_asked_for_only_where_the_filter_is_true() -> None:
    grouped = refresh_strategy(
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
    count = exact_sum.FUNCTIONS - 1 + beyond
    grouped = refresh_strategy(f"SELECT g, {', '.join(f'sum(x{n})' for n in range(count))} FROM t GROUP BY g").grouped
    assert grouped is not None
    with pytest.raises(NotPartial if beyond > 0 else Looked):
        Partials.from_query(grouped, Unread())  # type: ignore[arg-type]
    assert ((count + 1) * exact_sum.PLACES <= exact_sum._SQUARE) == (beyond <= 0)


@dataclass
class Of:
    """What a column gives for one row; NULL spreads, as in Spark."""

    value: Any

    def __le__(self, other: Of) -> Of:
        return Of(None if None in (self.value, other.value) else self.value <= other.value)

    def __ge__(self, other: Of) -> Of:
        return other <= self

    def __and__(self, other: Of) -> Of:
        return Of(self.value and other.value)

    def isNotNull(self) -> Of:
        """Spark's word for it."""
        return Of(self.value is not None)


def functions_on(row: dict[str, Any]) -> Any:
    """The functions of Spark that tell of extremes, for one row."""

    def of_those_there(chosen: Callable[..., Any]) -> Callable[..., Of]:
        return lambda *given: Of(chosen((one.value for one in given if one.value is not None), default=None))

    return SimpleNamespace(
        col=lambda name: Of(row[name]), lit=Of, least=of_those_there(min), greatest=of_those_there(max),
        coalesce=lambda *given: next((one for one in given if one.value is not None), Of(None)),
    )  # fmt: skip


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("held", "came", "gone", "best", "lost"),
    [
        (3, None, None, 3, False),
        (3, None, 4, 3, False),
        (3, None, 3, 3, True),  # there may be another one, and only the rows tell
        (3, 5, 3, 3, True),
        (3, 3, 3, 3, True),
        (3, 2, 3, 2, False),  # it went, but what came is beyond it
        (3, 2, 2, 2, True),
        (3, 2, None, 2, False),
        (None, 2, None, 2, False),
        (None, None, 4, None, True),
        (None, None, None, None, False),
    ],
)
def test_rows_of_a_group_are_read_again_if_an_extreme_may_have_gone(
    monkeypatch: pytest.MonkeyPatch, sign: int, held: Any, came: Any, gone: Any, best: Any, lost: bool
) -> None:
    """The same for the greatest, with all signs turned."""
    grouped = refresh_strategy(f"SELECT g, {'min' if sign > 0 else 'max'}(x) AS e FROM t GROUP BY g").grouped
    assert grouped is not None
    asked = Partials(grouped, {"_group_0": StringType(), "_argument_0": DoubleType()})
    row = {"_held_0": held, "_came_0": came, "_gone_0": gone}
    monkeypatch.setattr(
        partial_aggregates, "F", functions_on({name: one if one is None else sign * one for name, one in row.items()})
    )
    [call] = asked.stored_calls
    found: Any = asked._new_extreme(call)
    assert found.value == (best if best is None else sign * best)
    answer: Any = asked._is_extreme_lost(call)
    assert answer.value is lost
