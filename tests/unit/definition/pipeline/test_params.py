"""Parameters: which values they take, how these stand in SQL, paths and options, and each mistake with its line."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError
from sqlglot import exp

from sluicegate.definition.pipeline import param_values
from sluicegate.definition.pipeline.param_values import parse_param_value
from sluicegate.spark_sql.placeholders import Literals, Misplaced, fill_placeholders
from sluicegate.spark_sql.tokens import parse_sql
from tests.unit.definition.reading.test_loader import Folder

pytestmark = pytest.mark.unit

WITH_PARAMS = """\
name: shop
params:
  region: {{type: string, default: eu}}
  least: {{type: decimal, default: "19.90"}}
  days: {{type: "list<date>", default: [2024-05-01, 2024-05-02]}}
  {more}
bronze:
  orders_raw: {{path: "${{landing}}/${{param:region}}", format: csv, options: {{nullValue: "${{param:region}}"}}}}
silver:
  orders:
    sql: |
      SELECT o.id, o.price, o.day, o.region -- not ${{param:this}}
      FROM STREAM(orders_raw) AS o
      WHERE o.day IN (${{param:days}}) AND {where}
    expect_all: {{dear: "{condition}"}}
    keys: [id]
gold:
  daily: {{sql: daily.sql}}
"""
DAILY = "SELECT day, count(*) AS n\nFROM orders\nWHERE region = ${param:region}\nGROUP BY day"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def definition(
    more: str = "", where: str = "o.price >= ${param:least}", condition: str = "price > ${param:least}"
) -> str:
    return WITH_PARAMS.format(more=more, where=where, condition=condition)


def found(folder: Folder, text: str, daily: str = DAILY) -> list[tuple[str, int | None, str, str]]:
    return [(m.code, m.line, m.message, m.hint) for m in folder.mistakes(text, daily=daily)]


class TestDefinition:
    def test_values_stand_in_paths_options_conditions_and_queries(self, folder: Folder) -> None:
        pipeline = folder.load(definition(), daily=DAILY)
        assert pipeline.bronze["orders_raw"].path == "/the/landing/eu"
        assert pipeline.bronze["orders_raw"].options == {"nullValue": "eu"}
        query = pipeline.silver["orders"].query
        assert query is not None
        assert "o.day IN (DATE '2024-05-01', DATE '2024-05-02') AND o.price >= 19.90BD" in query.text
        assert "not ${param:this}" in query.text
        assert pipeline.silver["orders"].expectations["dear"].text == "price > 19.90BD"
        assert "region = 'eu'" in pipeline.gold["daily"].query.text
        assert {name: str(value) for name, value in pipeline.values.items()} == {
            "region": "eu", "least": "19.90", "days": "[2024-05-01, 2024-05-02]",
        }  # fmt: skip

    @pytest.mark.parametrize("view", ["SELECT * FROM orders WHERE region = ${param:region}", "view.sql"])
    def test_a_view_takes_values_as_a_table_does(self, folder: Folder, view: str) -> None:
        text = definition().replace("bronze:\n", f"views:\n  here: {view}\nbronze:\n", 1)
        daily = "SELECT day, count(*) AS n FROM here WHERE day IN (${param:days}) GROUP BY day"
        pipeline = folder.load(text, daily=daily, view="SELECT * FROM orders WHERE region = ${param:region}")
        assert "region = 'eu'" in pipeline.gold["daily"].query.text

    def test_another_value_is_another_definition_of_the_tables_that_use_it(self, folder: Folder) -> None:
        before = folder.load(definition(), daily=DAILY)
        after = folder.load(definition().replace('default: "19.90"', 'default: "20"'), daily=DAILY)
        assert before.silver["orders"].fingerprint != after.silver["orders"].fingerprint
        assert before.gold["daily"].fingerprint == after.gold["daily"].fingerprint
        assert before.bronze["orders_raw"].fingerprint == after.bronze["orders_raw"].fingerprint

    def test_a_value_has_the_fingerprint_of_the_same_value_written_there(self, folder: Folder) -> None:
        by_name = folder.load(definition(), daily=DAILY).gold["daily"].fingerprint
        written = folder.load(definition(), daily=DAILY.replace("${param:region}", "'eu'")).gold["daily"].fingerprint
        assert by_name == written


class TestMistakes:
    def test_an_unknown_parameter_is_told_with_the_nearest_one(self, folder: Folder) -> None:
        assert found(folder, definition(where="o.x = ${param:leest}")) == [
            ("unknown-param", 14, "unknown parameter leest", "did you mean least?")
        ]
        unknown = DAILY.replace("region}", "regoin}")
        [mistake] = folder.mistakes(definition(), daily=unknown)
        assert (mistake.code, Path(mistake.file).name, mistake.line) == ("unknown-param", "daily.sql", 3)

    def test_an_unused_parameter_is_told(self, folder: Folder) -> None:
        assert found(folder, definition("other: {type: int, default: 1}")) == [
            ("unused-param", 6, "unused parameter other", "remove it")
        ]

    @pytest.mark.parametrize(
        ("written", "hint"),
        [
            ("other: eu", "for example {type: string, default: eu}"),
            ("other: {default: [1, 2]}", "for example {type: list<int>, default: [1, 2]}"),
            ("other: {default: true}", "for example {type: boolean, default: true}"),
            ("other: {}", "for example {type: string}"),
        ],
    )
    def test_an_untyped_parameter_is_told_with_the_type_of_its_value(
        self, folder: Folder, written: str, hint: str
    ) -> None:
        text = definition(written, where="o.x = ${param:other} AND o.price >= ${param:least}")
        [(code, line, _, advice)] = found(folder, text)
        assert (code, line, advice) == ("untyped-param", 6, hint)

    def test_an_unknown_type_is_told(self, folder: Folder) -> None:
        text = definition("other: {type: strin, default: a}", where="o.x = ${param:other} AND 1 < ${param:least}")
        [(code, line, _, hint)] = found(folder, text)
        assert (code, line, hint) == ("not-allowed", 6, "did you mean string?")

    def test_a_parameter_without_a_value_is_told(self, folder: Folder) -> None:
        text = definition("other: {type: int}", where="o.x = ${param:other} AND o.price >= ${param:least}")
        assert found(folder, text) == [
            ("missing-param", 6, "the parameter other has no value", "add a default, or a value in each target")
        ]

    def test_a_name_that_is_none_is_told(self, folder: Folder) -> None:
        text = definition("my-param: {type: int, default: 1}", where="o.x = ${param:my-param} AND 1 < ${param:least}")
        assert [one[:2] for one in found(folder, text)] == [("name", 6)]

    def test_params_are_names_with_fields(self, folder: Folder) -> None:
        text = "name: shop\nparams: [a]\nbronze:\n  raw: {path: /in, format: json}\n"
        assert [one[:2] for one in found(folder, text)] == [("wrong-type", 2)]

    @pytest.mark.parametrize(
        ("field", "other", "line"),
        [
            ("keys: [id]", "keys: [id, '${param:region}']", 16),
            ("keys: [id]", "event_time: '${param:region}'", 16),
            ("sql: daily.sql", "sql: '${param:region}.sql'", 18),
            ("format: csv", "format: '${param:region}'", 8),
            ("nullValue: ", "'null${param:region}': ", 8),
        ],
    )
    def test_a_parameter_elsewhere_is_told(self, folder: Folder, field: str, other: str, line: int) -> None:
        told = found(folder, definition().replace(field, other))
        assert ("param-place", line) in [one[:2] for one in told]

    def test_a_parameter_in_the_header_is_told(self, folder: Folder) -> None:
        text = definition().replace("name: shop", "name: shop\ndescription: of ${param:region}")
        assert [one[:2] for one in found(folder, text)] == [("param-place", 2)]

    @pytest.mark.parametrize("where", ["o.x = '${param:least}'", "o.`${param:least}` = 1", "o.${param:least} > 1"])
    def test_a_parameter_within_quotes_or_names_is_told(self, folder: Folder, where: str) -> None:
        [(code, line, message, _)] = found(folder, definition(where=where))
        assert (code, line) == ("param-place", 14)
        assert message.startswith("${param:least} must not be inside quotes")

    def test_a_list_that_is_not_alone_in_parentheses_is_told(self, folder: Folder) -> None:
        [(code, line, message, _)] = found(folder, definition(where="o.x = ${param:days} AND 1 < ${param:least}"))
        assert (code, line) == ("param-place", 14)
        assert message.startswith("${param:days} is a list")

    def test_a_list_in_an_option_or_path_is_told(self, folder: Folder) -> None:
        text = definition().replace('nullValue: "${param:region}"', 'nullValue: "${param:days}"')
        assert [one[:2] for one in found(folder, text)] == [("param-place", 8)]

    @pytest.mark.parametrize("value", ["../other", "a/b", "..", ".hidden", "a b", "*", "{a,b}", "a..b", "-", "a\\b"])
    def test_a_value_that_could_lead_out_of_a_folder_is_told(self, folder: Folder, value: str) -> None:
        text = definition().replace("default: eu", f"default: {value!r}").replace("\\\\", "\\")
        told = found(folder, text)
        assert [one[:2] for one in told] == [("param-value", 8)]
        assert "path" in told[0][2]

    def test_a_value_of_another_type_is_told(self, folder: Folder) -> None:
        text = definition().replace('"19.90"', "cheap")
        assert [one[:3] for one in found(folder, text)] == [("param-value", 4, "expected a decimal number, got cheap")]


class TestValues:
    @pytest.mark.parametrize(
        ("kind", "value", "literal"),
        [
            ("string", "it's \\ a\nline", "'it\\'s \\\\ a\\nline'"),
            ("int", -5, "(-5)"),
            ("int", 2**31 - 1, "2147483647"),
            ("bigint", 2**31, "2147483648L"),
            ("double", 0.5, "0.5D"),
            ("double", -1e300, "(-1e300D)"),
            ("decimal", "19.90", "19.90BD"),
            ("decimal", 3, "3BD"),
            ("date", "2024-05-01", "DATE '2024-05-01'"),
            ("timestamp", "2024-05-01T12:00:00+02:00", "TIMESTAMP '2024-05-01 10:00:00Z'"),
            ("timestamp", "2024-05-01", "TIMESTAMP '2024-05-01 00:00:00Z'"),
            ("boolean", True, "TRUE"),
            ("list<string>", ["a", "b'"], "'a', 'b\\''"),
            ("list<int>", [1, -2], "1, (-2)"),
        ],
    )
    def test_each_type_has_its_literal(self, kind: Any, value: Any, literal: str) -> None:
        assert parse_param_value(kind, value).literals.text == literal

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            ("string", 5), ("string", "${env:HOME}"), ("string", "a\x00"), ("int", "5"), ("int", True), ("int", 2**31),
            ("bigint", 2**63), ("double", float("nan")), ("double", float("inf")), ("double", "1"), ("decimal", "a"),
            ("decimal", True), ("decimal", "1" * 39), ("decimal", "1e38"), ("decimal", "NaN"), ("date", "2024-02-30"),
            ("date", "20240501"), ("timestamp", "noon"), ("timestamp", 5), ("boolean", "true"), ("list<int>", []),
            ("list<int>", 1), ("list<int>", [1, "2"]), ("string", None), ("string", {}),
            ("timestamp", "0001-01-01T00:00:00+05:00"),
        ],
    )  # fmt: skip
    def test_a_value_of_no_such_type_is_refused(self, kind: Any, value: Any) -> None:
        with pytest.raises(PydanticCustomError):
            parse_param_value(kind, value)

    def test_a_decimal_has_DIGITS_at_most(self) -> None:
        digits = param_values.DIGITS
        assert parse_param_value("decimal", "9" * digits).literals.text == "9" * digits + "BD"
        with pytest.raises(PydanticCustomError):
            parse_param_value("decimal", "9" * (digits + 1))

    def test_times_are_in_utc(self) -> None:
        [time] = parse_param_value("timestamp", "2024-05-01T12:00:00").items
        assert time == datetime.fromisoformat("2024-05-01T12:00:00+00:00")
        assert parse_param_value("timestamp", "2024-05-01T12:00:00+02:00").text == "2024-05-01T10:00:00Z"

    @given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], include_characters="\n\t'\\\"`-/*")))
    def test_no_text_gets_out_of_its_literal(self, text: str) -> None:
        if "${" in text:
            return
        literals = parse_param_value("string", text).literals
        made = fill_placeholders("SELECT ${param:x} AS x,\n a FROM t", lambda name, line: literals)
        select = parse_sql(made)
        assert isinstance(select, exp.Select)
        assert [one.alias_or_name for one in select.expressions] == ["x", "a"]
        assert select.expressions[0].this.this == text
        assert made.count("\n") == 1


class TestPlaces:
    def filled(self, text: str, literal: str = "1", *, many: bool = False) -> str:
        return fill_placeholders(text, lambda name, line: Literals(literal, many))

    def test_a_reference_is_a_token_of_its_own(self) -> None:
        assert self.filled("SELECT ${param:a}, f(${param:b}) FROM t") == "SELECT 1, f(1) FROM t"

    @pytest.mark.parametrize(
        "text", ["a${param:x}", "${param:x}${param:y}", '"${param:x}"', "'a ${param:x}'", "`${param:x}`",
                 "r'${param:x}'", "/*+ BROADCAST(${param:x}) */ a", "a.${param:x}", "1${param:x}", "${param:x}AND",
                 "1.${param:x}", "${param:x}.5", "${param:x}'a'", "'a'${param:x}", '${param:x}"a"']
    )  # fmt: skip
    def test_one_that_is_not_is_refused(self, text: str) -> None:
        with pytest.raises(Misplaced):
            self.filled(f"SELECT {text} FROM t")

    def test_comments_keep_theirs(self) -> None:
        text = "SELECT 1 -- ${param:x}\n, 2 /* '${param:y} */ FROM t"
        assert self.filled(text) == text

    def test_the_line_of_each_is_handed_on(self) -> None:
        lines: list[tuple[str, int]] = []

        def literals(name: str, line: int) -> Literals:
            lines.append((name, line))
            return Literals("1")

        fill_placeholders("SELECT ${param:a},\n\n${param:b}", literals)
        assert lines == [("a", 1), ("b", 3)]
