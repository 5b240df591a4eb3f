"""Cases of a pipeline: how their files are read, how rows are compared, how a difference is shown. No Spark."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from dataclasses import asdict
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sluicegate.definition import load as load_definition
from sluicegate.definition import names
from sluicegate.definition.pipeline.model import BronzeTable, Pipeline
from sluicegate.errors import CaseError, UserError
from sluicegate.settings import Settings
from sluicegate.tools.testing import given as testing_given
from sluicegate.tools.testing import values
from sluicegate.tools.testing.case_files import choose_cases, load
from sluicegate.tools.testing.case_run import FAILED, CaseResult, _Run, needed_tables
from sluicegate.tools.testing.model import Case, Place, Rows, TableGiven, Wrong
from sluicegate.tools.testing.row_diff import SHOWN, TableDifference, compare, pair_rows, unmatched_rows
from sluicegate.tools.testing.rows import typed_value
from sluicegate.tools.testing.show import show
from sluicegate.tools.testing.values import NAN, FieldValues, Unfit, case_value, display_value, table_value
from tests.conftest import ROOT

pytestmark = pytest.mark.unit


DEFINITION = """\
name: shop
bronze:
  orders: {path: "${landing}/orders", format: json}
  people: {path: "${landing}/people", format: csv, options: {header: true}}
  notes: {path: "${landing}/notes", format: xml, options: {rowTag: note}}
  theirs: {path: "${landing}/theirs", format: delta}
silver:
  good: {sql: "SELECT o.id, o.who, p.name FROM STREAM(orders) AS o LEFT JOIN people AS p USING (who)", keys: [id]}
  others: {sql: "SELECT x FROM STREAM(theirs)"}
gold:
  sums: {sql: "SELECT who, count(*) AS n FROM good GROUP BY who"}
"""


class Shop:
    """A pipeline whose cases are written here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "pipelines" / "shop"
        (self.folder / "tests").mkdir(parents=True)
        (self.folder / "pipeline.yaml").write_text(DEFINITION)

    @property
    def definition(self) -> Pipeline:
        above = self.folder.parents[1]
        return load_definition("shop", Settings.of(str(above / "lake"), str(above / "landing"), self.folder.parent))

    def cases(self, text: str, file: str = "a.yaml") -> list[Case]:
        (self.folder / "tests" / file).write_text(text)
        return load(self.definition)

    def mistakes(self, text: str) -> list[tuple[int | None, str]]:
        """Line and message of each mistake."""
        with pytest.raises(CaseError) as raised:
            self.cases(text)
        assert all(one.file.endswith("tests/a.yaml") for one in raised.value.mistakes)
        return [(one.line, one.message) for one in raised.value.mistakes]


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


# Files


def test_a_case_is_read_with_its_rows_and_lines(shop: Shop) -> None:
    (case,) = shop.cases(
        """\
cases:
  late:
    description: shows it
    steps:
      - given:
          orders:
            - {id: 1, who: a}
            - {id: 2}
          people: |
            who, name
            a, "Ada, the first"
            b,
        expect:
          good: |
            id, who
            1, a
      - landed: 2024-05-01 12:00
        landing: {orders/b.json: "[]"}
        expect:
          good_quarantine: {count: 0}
          sums: {columns: [who, n], rows: [[a, 1], [b, 2]], tolerance: 0.5}
"""
    )
    first, second = case.steps
    assert (case.name, case.description, case.place.line) == ("late", "shows it", 2)
    orders, people = first.given
    assert orders.rows.records == ({"id": 1, "who": "a"}, {"id": 2})
    assert [place.line for place in orders.rows.places] == [7, 8]
    assert people.rows.texts
    assert people.rows.records == ({"who": "a", "name": "Ada, the first"}, {"who": "b", "name": None})
    assert [place.line for place in people.rows.places] == [11, 12]
    assert first.expect[0].rows is not None
    assert first.expect[0].rows.columns == ("id", "who")
    assert second.landed == datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert second.expect[0].count == 0
    assert second.expect[1].rows is not None
    assert second.expect[1].rows.records[1] == {"who": "b", "n": 2}
    assert second.expect[1].tolerance == 0.5


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("cases:\n  a:\n    given: {oders: []}\n    expect: {good: []}", 3, "bronze table oders"),
        ("cases:\n  a:\n    given: {good: []}\n    expect: {good: []}", 3, "good is computed by the pipeline"),
        ("cases:\n  a:\n    given: {notes: []}\n    expect: {good: []}", 3, "notes has xml files"),
        ("cases:\n  a:\n    given: {orders: 1}\n    expect: {good: []}", 3, "expected rows"),
        ("cases:\n  a:\n    given: {orders: [1]}\n    expect: {good: []}", 3, "a row must be {column: value}"),
        ("cases:\n  a:\n    given: {orders: {rows: [], mode: overwrite}}\n    expect: {good: []}", 3, "mode requires"),
        ("cases:\n  a:\n    given: {orders: {rows: [], file: ../x}}\n    expect: {good: []}", 3, "is not the name"),
        ("cases:\n  a:\n    given: {theirs: {rows: [], file: x}}\n    expect: {good: []}", 3, "theirs reads a Delta"),
        ("cases:\n  a:\n    landing: {/etc/x: y}\n    expect: {good: []}", 3, "is not the name"),
        ("cases:\n  a:\n    expect:\n      goood: []", 4, "table goood"),
        ("cases:\n  a:\n    expect:\n      sums_quarantine: []", 4, "table sums_quarantine"),
        ("cases:\n  a:\n    expect:\n      good: {}", 4, "nothing is expected here"),
        ("cases:\n  a:\n    expect:\n      good: {rows: [], contains: []}", 4, "rows and contains"),
        ("cases:\n  a:\n    expect:\n      good: {count: -1}", 4, "count is -1"),
        ("cases:\n  a:\n    expect:\n      good: {cuont: 1}", 4, "field cuont"),
        ("cases:\n  a:\n    expect:\n      good: {columns: [a, b], rows: [[1]]}", 4, "expected 2 values"),
        ("cases:\n  a:\n    expect:\n      good:\n      - {id: 1, who: b}\n      - {id: 2}", 6, "lacks who"),
        ("cases:\n  a:\n    expect:\n      good: |\n        id, who\n        1, a, b", 6, "the header has 2 columns"),
        ("cases:\n  a:\n    expect:\n      good: |\n        id, id\n        1, a", 5, "duplicate column"),
        ("cases:\n  a:\n    expect:\n      good: ''", 4, "CSV text is empty"),
        ('cases:\n  a:\n    expect:\n      good: |\n        id\n        "1', 6, "invalid CSV"),
        ("cases:\n  a:\n    given: {orders: []}", 2, "this case expects nothing"),
        ("cases:\n  a:\n    expcet: {good: []}", 3, "field expcet"),
        ("cases:\n  a:\n    steps: []", 3, "list of steps is empty"),
        ("cases:\n  a:\n    expect: {good: []}\n    steps: [{expect: {good: []}}]", 2, "has no expect of its"),
        ("cases:\n  a:\n    fails: SG999", 3, "error code SG999"),
        ("cases:\n  a:\n    fails: broken", 3, "fails is broken"),
        ("cases:\n  a: 1", 2, "expected fields"),
        ("cases: []", 1, "expected cases"),
        ("cases: {a: {expect: {good: []}}}\nnow: 1", 2, "field now"),
        ("cases:\n  a: {expect: {good: [}}", 2, "YAML"),
        ("cases:\n  a: {fails: SG300}\n  a: {fails: SG300}", 3, "duplicate key a"),
        ("", 1, "expected cases"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(shop: Shop, text: str, line: int, said: str) -> None:
    found = shop.mistakes(text)
    assert any(at == line and said in message for at, message in found), found


def test_all_mistakes_of_all_files_are_told_at_once(shop: Shop) -> None:
    (shop.folder / "tests" / "b.yaml").write_text("cases: {x: {expect: {bad: []}}}")
    with pytest.raises(CaseError) as raised:
        shop.cases("cases: {a: {expect: {worse: []}}, b: {given: {nothing: []}, expect: {good: []}}}")
    assert len(raised.value.mistakes) == 3
    assert raised.value.exit_code == 2
    assert "the cases of shop have 3 mistakes" in raised.value.for_people()


def test_no_cases_at_all_are_an_error_that_says_what_to_do(shop: Shop) -> None:
    with pytest.raises(UserError, match="has no cases") as raised:
        load(shop.definition)
    assert raised.value.exit_code == 2
    assert "testing-pipelines.md" in raised.value.hint


def test_cases_are_chosen_by_word_and_name(shop: Shop) -> None:
    (shop.folder / "tests" / "late.yaml").write_text("cases: {one: {fails: SG300}, two: {fails: SG300}}")
    cases = shop.cases("cases: {a Late one: {fails: SG300}, other: {fails: SG300}}")
    assert [case.name for case in choose_cases(cases, "LATE")] == ["a Late one", "one", "two"]
    assert [case.name for case in choose_cases(cases, None, ["two", "other"])] == ["other", "two"]
    with pytest.raises(UserError, match="no case has nothing"):
        choose_cases(cases, "nothing")
    with pytest.raises(UserError, match="case twoo") as raised:
        choose_cases(cases, None, ["twoo"])
    assert raised.value.hint == "did you mean two?"


def test_only_the_tables_that_a_case_needs_are_run(shop: Shop) -> None:
    cases = shop.cases(
        "cases: {a: {expect: {sums: []}}, b: {expect: {good_quarantine: []}},"
        " c: {expect: {theirs: []}}, d: {fails: SG300}}"
    )
    needed = [needed_tables(shop.definition, case) for case in cases]
    assert needed[0] == {"sums", "good", "orders", "people"}
    assert needed[1] == {"good", "orders", "people"}
    assert needed[2] == {"theirs"}
    assert needed[3] >= {"orders", "people", "notes", "theirs", "good", "others", "sums"}


@pytest.mark.parametrize("name", names(ROOT / "pipelines"))
def test_each_pipeline_of_ours_has_cases_that_say_what_they_show(name: str) -> None:
    cases = load(load_definition(name, Settings.of("lake", "landing", ROOT / "pipelines")))
    assert len(cases) >= 2
    assert [case.name for case in cases if not case.description] == []


# Values

NESTED = pa.list_(pa.struct([("id", pa.string()), ("part", pa.float64())]))


@pytest.mark.parametrize(
    ("written", "kind", "there"),
    [
        (None, pa.int32(), None),
        (1, pa.int64(), 1),
        (1.0, pa.int64(), 1),
        ("1", pa.int32(), 1),
        (1, pa.float64(), 1.0),
        ("1.5", pa.float64(), 1.5),
        (0.1, pa.float32(), 0.10000000149011612),
        (float("nan"), pa.float64(), float("nan")),
        ("NaN", pa.float64(), float("nan")),
        (0.0, pa.float64(), -0.0),
        (True, pa.bool_(), True),
        ("false", pa.bool_(), False),
        ("12.30", pa.decimal128(10, 2), Decimal("12.30")),
        (12.3, pa.decimal128(10, 4), Decimal("12.3000")),
        ("a", pa.string(), "a"),
        ("2024-05-01", pa.timestamp("us", "UTC"), datetime(2024, 5, 1, tzinfo=UTC)),
        ("2024-05-01 02:00:00+02:00", pa.timestamp("us", "UTC"), datetime(2024, 5, 1, tzinfo=UTC)),
        ("2024-05-01T00:00:00.000001Z", pa.timestamp("us", "UTC"), datetime(2024, 5, 1, 0, 0, 0, 1, tzinfo=UTC)),
        ("2024-05-01 01:00", pa.timestamp("us"), datetime(2024, 5, 1, 1)),
        ("2024-05-01", pa.date32(), date(2024, 5, 1)),
        ("ab", pa.binary(), b"ab"),
        ([{"id": "x", "part": 1}, None, {"part": None}], NESTED,
         [{"id": "x", "part": 1.0}, None, {"id": None, "part": None}]),
        ({"b": 2, "a": 1}, pa.map_(pa.string(), pa.int32()), [("a", 1), ("b", 2)]),
        ({"1": "x"}, pa.map_(pa.int32(), pa.string()), [(1, "x")]),
    ],
)  # fmt: skip
def test_a_value_of_a_case_is_that_of_the_table(written: Any, kind: pa.DataType, there: Any) -> None:
    (read,) = pa.array([there], kind).to_pylist()
    assert case_value(written, kind) == table_value(read, kind)
    assert hash(case_value(written, kind)) == hash(table_value(read, kind))


def test_nested_values_of_csv_text_are_json() -> None:
    there = table_value([{"id": "x", "part": 0.5}], NESTED)
    assert case_value('[{"id": "x", "part": 0.5}]', NESTED, text=True) == there
    with pytest.raises(Unfit, match="in CSV text"):
        case_value("x, 0.5", NESTED, text=True)


@pytest.mark.parametrize(
    ("written", "kind", "said"),
    [
        ("a", pa.int32(), "whole numbers"),
        (1.5, pa.int32(), "whole numbers"),
        (True, pa.int32(), "whole numbers"),
        (True, pa.float64(), "numbers"),
        ("fast", pa.float64(), "numbers"),
        (1, pa.string(), "the column"),
        (1, pa.bool_(), "true or false"),
        ("x", pa.decimal128(5, 2), "decimal numbers"),
        ("NaN", pa.decimal128(5, 2), "decimal numbers"),
        ("noon", pa.timestamp("us", "UTC"), "times"),
        (5, pa.timestamp("us", "UTC"), "times"),
        ("2024-05-01 00:00:00Z", pa.timestamp("us"), "times"),
        ("2024-13-01", pa.date32(), "dates"),
        ("x", NESTED, "lists"),
        ([1], NESTED, "{field: value}"),
        ([{"idd": "x"}], NESTED, "field idd"),
        ("x", pa.map_(pa.string(), pa.int32()), "{key: value}"),
        ("x", pa.duration("us"), "cannot be compared"),
    ],
)
def test_what_cannot_be_a_value_of_the_column_is_a_mistake(written: Any, kind: pa.DataType, said: str) -> None:
    with pytest.raises(Unfit) as raised:
        case_value(written, kind)
    assert said in raised.value.message


def test_values_are_shown_so_that_they_cannot_be_taken_for_others() -> None:
    told = [
        None,
        "",
        " a",
        "a",
        "NULL",
        True,
        1,
        NAN,
        datetime(2024, 5, 1, tzinfo=UTC),
        FieldValues((("a", None),)),
        ("x",),
    ]
    assert [display_value(value) for value in told] == [
        "NULL", '""', '" a"', "a", '"NULL"', "true", "1", "NaN", "2024-05-01 00:00:00", "{a: NULL}", "[x]",
    ]  # fmt: skip


def test_numbers_of_csv_text_that_lands_as_json() -> None:
    texts = ["1", "-2", "007", "1.50", "1e3", "true", "x", "", "1,5", "NaN"]
    assert [typed_value(text) for text in texts] == [1, -2, "007", 1.5, 1000.0, True, "x", "", "1,5", "NaN"]


# Differences

cells = st.one_of(st.none(), st.integers(0, 3), st.sampled_from(["a", "b"]), st.just(NAN))
rows = st.lists(st.tuples(cells, cells), max_size=8)


@given(rows, st.randoms(use_true_random=False))
def test_the_order_of_rows_means_nothing(some: list[Any], chance: random.Random) -> None:
    other = list(some)
    chance.shuffle(other)
    assert unmatched_rows(some, other, 0.0) == ([], [])
    assert compare(TableDifference("t", 1, 1), some, other)


@given(rows, rows)
def test_what_is_left_is_the_difference_of_two_multisets(some: list[Any], others: list[Any]) -> None:
    missing, unexpected = unmatched_rows(some, others, 0.0)
    assert Counter(missing) == Counter(some) - Counter(others)
    assert Counter(unexpected) == Counter(others) - Counter(some)
    assert unmatched_rows(others, some, 0.0) == (unexpected, missing)
    assert compare(TableDifference("t", 1, 1), some, others) is (Counter(some) == Counter(others))


@given(rows.filter(bool), st.data())
def test_any_single_change_is_seen_from_both_sides(some: list[Any], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(some) - 1))
    kind = data.draw(st.sampled_from(["one less", "twice", "another value"]))
    other = list(some)
    if kind == "one less":
        del other[at]
    elif kind == "twice":
        other.append(other[at])
    else:
        column = data.draw(st.integers(0, 1))
        value = data.draw(cells.filter(lambda value: value != some[at][column]))
        other[at] = tuple(value if n == column else old for n, old in enumerate(some[at]))
    for expected, found in ((some, other), (other, some)):
        told = TableDifference("t", 1, 1, columns=["a", "b"])
        assert not compare(told, expected, found)
        assert sum(told.counts.values()) in (1, 2)
        assert told.missing or told.unexpected or told.changed


@given(st.lists(st.integers(0, 20), max_size=7), st.lists(st.integers(0, 20), max_size=7), st.integers(1, 5))
def test_with_a_tolerance_as_many_rows_as_possible_find_one(some: list[int], others: list[int], width: int) -> None:
    missing, unexpected = unmatched_rows([(n / 10,) for n in some], [(n / 10,) for n in others], width / 10)
    # On a line the greedy way is right: each takes the smallest that is near enough and free. What is exactly equal
    # goes first, as in the function.
    left, free = (
        sorted((Counter(some) - Counter(others)).elements()),
        sorted((Counter(others) - Counter(some)).elements()),
    )
    matched = 0
    for one in left:
        if (near := next((n for n in free if abs(n - one) <= width), None)) is not None:
            free.remove(near)
            matched += 1
    assert len(missing) == len(left) - matched
    assert len(unexpected) == len(free)


def test_a_tolerance_is_for_numbers_with_a_fraction_only() -> None:
    assert unmatched_rows([(1,)], [(2,)], 1.0) == ([(1,)], [(2,)])
    assert unmatched_rows([(Decimal("1.00"),)], [(Decimal("1.01"),)], 0.01) == ([], [])
    assert unmatched_rows([((1.0, NAN),)], [((1.1, NAN),)], 0.2) == ([], [])
    assert unmatched_rows([(NAN,)], [(1.0,)], 5.0) == ([(NAN,)], [(1.0,)])


def test_rows_are_paired_by_keys_or_by_what_they_have_in_common() -> None:
    missing, unexpected = [(1, "a", 1.0), (2, "b", 2.0)], [(2, "x", 9.0), (3, "a", 1.0)]
    assert pair_rows(list(missing), list(unexpected), [0]) == [((2, "b", 2.0), (2, "x", 9.0))]
    left, others = list(missing), list(unexpected)
    assert pair_rows(left, others) == [((1, "a", 1.0), (3, "a", 1.0))]
    assert (left, others) == ([(2, "b", 2.0)], [(2, "x", 9.0)])


def test_some_rows_are_enough_where_only_some_are_expected() -> None:
    assert compare(TableDifference("t", 1, 1), [(1,)], [(2,), (1,)], partly=True)
    told = TableDifference("t", 1, 1)
    assert not compare(told, [(1,), (1,)], [(1,), (2,)], partly=True)
    assert told.counts == {"missing": 1, "unexpected": 0, "changed": 0}


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_so_many_rows_of_each_kind_are_SHOWN_and_all_are_counted(beyond: int) -> None:
    count = SHOWN + beyond
    expected = [("missing", n, n) for n in range(count)] + [("changed", n, 0) for n in range(count)]
    found = [("unexpected", n, n) for n in range(count)] + [("changed", n, 1) for n in range(count)]
    told = TableDifference("t", 1, 1, columns=["kind", "n", "v"])
    assert not compare(told, expected, found, keys=[0, 1])
    assert told.counts == {"missing": count, "unexpected": count, "changed": count}
    first = range(min(count, SHOWN))
    assert told.missing == [["missing", str(n), str(n)] for n in first]
    assert told.unexpected == [["unexpected", str(n), str(n)] for n in first]
    assert told.changed == [[["changed", str(n), "0"], ["changed", str(n), "1"]] for n in first]
    text = io.StringIO()
    show(CaseResult("c", "/x/a.yaml", 1, "", FAILED, 1.0, "/tmp/kept", [told]), Console(file=text, width=100))
    assert ("and 3 more" in text.getvalue()) == (beyond > 0)
    assert ("more" in text.getvalue()) == (beyond > 0)


def test_a_difference_is_shown_row_by_row_with_its_line() -> None:
    told = TableDifference("good", 2, 14, columns=["id", "name"])
    expected, found = [(1, "Ada"), (2, "Bo"), (4, None)], [(1, "Aba"), (2, "Bo"), (3, "Cy")]
    assert not compare(told, expected, found, keys=[0])
    result = CaseResult("late", "/x/tests/a.yaml", 3, "what it shows", FAILED, 1.25, "/tmp/kept", [told])
    text = io.StringIO()
    show(result, Console(file=text, width=100), keep=True)
    lines = [" ".join(line.split()) for line in text.getvalue().splitlines()]
    assert lines[:4] == [
        "FAILED a.yaml: late 1.2 s",
        "what it shows",
        "good after step 2: 1 row differs; 1 row is missing; 1 row is unexpected",
        "/x/tests/a.yaml:14",
    ]
    assert "~ differs 1 Ada ≠ Aba" in lines
    assert "- missing 4 NULL" in lines
    assert "+ unexpected 3 Cy" in lines
    assert lines[-1] == "kept in /tmp/kept"
    assert CaseResult.from_dict(asdict(result)) == result


# Landing


def table(**fields: Any) -> BronzeTable:
    return BronzeTable.model_validate({"path": "/l/t", **fields})


def content(of: BronzeTable, *records: dict[str, Any], texts: bool = False) -> str:
    place = Place("a.yaml", "x", 1)
    columns = tuple(dict.fromkeys(name for record in records for name in record))
    rows = Rows(columns, records, tuple(place for _ in records), texts)
    return testing_given._content(None, TableGiven("t", rows, place), of).decode()  # type: ignore[arg-type]


def test_rows_are_written_in_the_table_s_own_format() -> None:
    lines = table(format="json")
    assert content(lines, {"a": 1, "b": None}, {"a": "é"}) == '{"a": 1, "b": null}\n{"a": "é"}\n'
    assert (
        content(table(format="json", options={"multiLine": True}), {"a": 1}, {"a": 2}) == '[\n{"a": 1},\n{"a": 2}\n]\n'
    )
    assert content(lines, {"a": "1", "b": None, "c": "01"}, texts=True) == '{"a": 1, "b": null, "c": "01"}\n'
    headed = table(format="csv", options={"header": True, "sep": ";"})
    assert content(headed, {"a": "x;y", "b": None}, {"a": 'q"', "b": True}) == 'a;b\n"x;y";\n"q""";true\n'
    sparks = table(format="csv", dialect="spark", options={"header": True})
    assert content(sparks, {"a": 'q"'}) == 'a\n"q\\""\n'
    doubled = table(format="csv", options={"escape": '"', "nullValue": "-"}, schema="b STRING, a STRING")
    assert content(doubled, {"a": 'q"', "b": None}) == '-,"q"""\n'
    below = table(format="csv", options={"header": True, "skipRows": 2})
    assert content(below, {"a": "1"}) == "\n\na\n1\n"
    within = table(format="json", options={"multiLine": True}, records="response.items")
    assert json.loads(content(within, {"a": 1}, {"a": 2})) == {"response": {"items": [{"a": 1}, {"a": 2}]}}
    assert content(table(format="text"), {"value": "x"}, {"value": "y"}) == "x\ny\n"
    with pytest.raises(Wrong, match="one column, value"):
        content(table(format="text"), {"line": "x"})


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"format": "json"}, "/l/t/t-2.json"),
        ({"format": "csv", "pathGlobFilter": "orders_*.csv"}, "/l/t/orders_t-2.csv"),
        ({"format": "csv", "pathGlobFilter": "[op]-?.txt"}, "/l/t/o-2.txt"),
        ({"format": "csv", "path": "/l/people.csv"}, "/l/people.csv"),
    ],
)
def test_a_file_has_a_name_that_the_table_lets_in(fields: dict[str, Any], name: str) -> None:
    given = TableGiven("t", Rows((), (), ()), Place("a.yaml", "x", 1))
    assert str(testing_given._file(given, table(**fields), 2)) == name


def test_what_lies_outside_of_the_case_is_never_read_or_written(shop: Shop, tmp_path: Path) -> None:
    text = DEFINITION.replace('"${landing}/theirs"', '"s3a://bucket/theirs"').replace(
        'people: {path: "${landing}/people"',
        "people: {cleanSource: MOVE, cleanSourceMoveDestination: /archive, path: /srv/people",
    )
    (shop.folder / "pipeline.yaml").write_text(text)
    folder = tmp_path / "case"
    settings = Settings.of(str(folder / "lake"), str(folder / "landing"), shop.folder.parent)
    pipeline = testing_given.enclose_pipeline(load_definition("shop", settings), folder)
    bronze = pipeline.bronze
    assert bronze["orders"].path == str(folder / "landing" / "orders")
    assert bronze["theirs"].path == str(folder / "elsewhere" / "theirs")
    assert bronze["people"].path == str(folder / "elsewhere" / "people")
    assert bronze["people"].cleanSourceMoveDestination == str(folder / "moved" / "people")
    assert pipeline.silver["good"].query is not None
    assert values.display_value(None) == "NULL"


def test_no_row_in_quarantine_is_not_enough_while_the_records_of_its_table_wait(tmp_path: Path) -> None:
    """The lookup has not landed: nothing was looked at that could be quarantined."""
    shop = Shop(tmp_path)
    cases = shop.cases("cases:\n  a:\n    expect: {good: [], good_quarantine: [], sums: []}")
    run = _Run(None, shop.definition, cases[0], tmp_path)  # type: ignore[arg-type]

    def differing() -> dict[str, str]:
        found = [run._compare_table(one, 1) for one in cases[0].steps[0].expect]
        return {one.table: one.note for one in found if one}

    assert differing() == {}  # nothing has landed
    rows = pa.table({"_chunk": [1], "_pos": [0], "id": ["1"], "who": ["x"]})
    write_deltalake(run.at.table("bronze", "orders"), rows)
    assert list(differing()) == ["good_quarantine"]
    assert "good does not exist, and its records wait" in differing()["good_quarantine"]
    write_deltalake(run.at.table("silver", "good"), rows.slice(0, 0))
    assert differing() == {}
