"""The SELECT of a copy: expressions over one record's fields pass, anything else is refused before Spark sees it."""

from __future__ import annotations

import pytest

from sluicegate.definition import BronzeTable
from sluicegate.errors import QueryError, UserError
from sluicegate.landing.chosen.copy import Copy, parse_moment, parse_names, parse_options
from sluicegate.landing.chosen.copy_options import CopyOptions
from sluicegate.landing.chosen.copy_select import Select
from sluicegate.spark_sql.tokens import QuerySyntax

pytestmark = pytest.mark.unit

JSON = BronzeTable(path="/landing", format="json", pathGlobFilter="*.json", options={"allowComments": "true"})


def test_what_each_expression_looks_at() -> None:
    text = "SELECT CAST(a AS INT) AS id, upper(s.b) b2, _metadata.file_name, transform(q, x -> x + n) f FROM source s"
    select = Select.parse(text)
    assert select.alias == "s"
    assert [(output.name, output.fields) for output in select.outputs] == [
        ("id", ("a",)), ("b2", ("b",)), ("file_name", ()), ("f", ("q", "n")),
    ]  # fmt: skip
    assert select.outputs[0].text == "TRY_CAST(a AS INT) AS id"
    assert select.outputs[0].failures == ("((a) IS NOT NULL AND TRY_CAST((a) AS INT) IS NULL)",)
    assert [output.failures for output in select.outputs[1:]] == [(), (), ()]


def test_a_parameter_of_a_lambda_is_no_field() -> None:
    [output] = Select.parse("SELECT filter(q, Part -> part.price > n) AS f FROM source").outputs
    assert output.fields == ("q", "n")


def test_a_star_takes_the_fields() -> None:
    select = Select.parse("SELECT *, 1 AS one FROM source")
    assert select.names((), ["a", "b"]) == ["a", "b", "one"]
    assert select.names(["x", "y", "z"], ["a", "b"]) == ["x", "y", "z"]
    with pytest.raises(QuerySyntax, match="2 columns"):
        select.names(["x", "y", "z"], ["a"])
    with pytest.raises(QuerySyntax, match="name ONE"):
        select.names((), ["ONE"])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT a FROM other", "write FROM source"),
        ("SELECT a FROM source, source", "JOINS"),
        ("SELECT a FROM parquet.`/etc`", "write FROM source"),
        ("SELECT a FROM STREAM(source)", "write FROM source"),
        ("SELECT a FROM source TABLESAMPLE (5 ROWS)", "write FROM source"),
        ("SELECT a FROM source WHERE a > 1", "WHERE"),
        ("SELECT DISTINCT a FROM source", "DISTINCT"),
        ("SELECT a FROM source LIMIT 1", "LIMIT"),
        ("SELECT a FROM source UNION SELECT b FROM source", "one SELECT"),
        ("WITH x AS (SELECT 1) SELECT a FROM source", "WITH"),
        ("SELECT (SELECT 1) AS a FROM source", "subquery"),
        ("SELECT a IN (SELECT 1) AS b FROM source", "subquery"),
        ("SELECT max(a) AS a FROM source", "aggregate"),
        ("SELECT row_number() OVER (ORDER BY a) AS n FROM source", "window"),
        ("SELECT explode(a) AS a FROM source", "each record"),
        ("SELECT json_tuple(a, 'b') AS c FROM source", "each record"),
        ("SELECT reflect('java.lang.System', 'exit') AS a FROM source", "reflect"),
        ("SELECT a FROM source; DROP TABLE x", "second statement"),
        ("SELECT a::int AS b FROM source", "write CAST"),
        ("SELECT INT(a) AS b FROM source", "write CAST"),
        ("SELECT CAST(a AS ARRAY<INT>) AS b FROM source", "CAST to ARRAY"),
        ("SELECT _metadata.file_size AS b FROM source", "_metadata has"),
        ("SELECT * EXCEPT (a) FROM source", "the columns"),
        ("SELECT :p AS a FROM source", "parameter markers"),
        ("DROP TABLE x", "with SELECT"),
        ("SELECT 'a FROM source", "unclosed string"),
    ],
)
def test_anything_else_is_refused(text: str, why: str) -> None:
    with pytest.raises(QuerySyntax, match=why):
        Select.parse(text)
    with pytest.raises(QueryError, match=why):
        CopyOptions(select=text).table("things", JSON)


@pytest.mark.parametrize(
    ("copy", "why"),
    [
        (CopyOptions(format="jsn"), "format jsn"),
        (CopyOptions(format="delta"), "delta"),
        (CopyOptions(format="xml"), "rowTag"),
        (CopyOptions(options={"header": "true"}), "not an option of Spark's json reader"),
        (CopyOptions(options={"mode": "FAILFAST"}), "only PERMISSIVE"),
        (CopyOptions(columns=("a",)), "CSV files without a header"),
        (CopyOptions(columns=("a",), format="csv", options={"HEADER": "true"}), "CSV files without a header"),
        (CopyOptions(columns=("a", "A"), format="csv"), "duplicate column"),
        (CopyOptions(columns=("_chunk",), format="csv"), "reserved name"),
        (CopyOptions(select="SELECT a b, c FROM source", columns=("x",)), "2 columns"),
        (CopyOptions(select="SELECT a + 1 FROM source"), "column name"),
        (CopyOptions(select="SELECT a AS source_file FROM source"), "reserved name"),
        (CopyOptions(select="SELECT a AS `b c` FROM source"), "blanks"),
    ],
)
def test_options_that_cannot_be_are_refused_with_the_reason(copy: CopyOptions, why: str) -> None:
    with pytest.raises(UserError) as caught:
        copy.table("things", JSON)
    assert why in str(caught.value) + caught.value.hint


def test_what_a_copy_changes_of_the_definition() -> None:
    assert CopyOptions().table("things", JSON) == JSON
    same = CopyOptions(options={"AllowComments": "false"}).table("things", JSON)
    assert (same.options, same.pathGlobFilter) == ({"AllowComments": "false"}, "*.json")
    other = CopyOptions(format="csv", options={"header": "true"}).table("things", JSON)
    assert (other.format, other.options, other.pathGlobFilter) == ("csv", {"header": "true"}, None)
    assert CopyOptions(merge_schema=False).table("things", JSON).schemaEvolutionMode == "failOnNewColumns"
    declared = BronzeTable(path="/landing", format="json", schema="a INT")
    assert CopyOptions(merge_schema=True).table("things", declared).schemaEvolutionMode == "addNewColumns"
    with pytest.raises(UserError, match="reads a Delta table"):
        CopyOptions().table("things", BronzeTable(path="/theirs", format="delta"))


def test_what_the_ledger_keeps_is_what_was_said() -> None:
    said = CopyOptions("SELECT a FROM source", ("x",), "csv", {"sep": ";"}, False)
    assert CopyOptions.from_facts(said.facts) == said
    assert CopyOptions().facts == {}
    copy = Copy("/x", modified_after=parse_moment("2024-05-01"), how=said)
    arguments = copy.arguments("things", None)
    assert "--modified-after=2024-05-01T00:00:00+00:00" in arguments
    assert any(argument.startswith("--how={") for argument in arguments)


def test_words_of_the_command_line() -> None:
    assert parse_names("a, b") == ("a", "b")
    assert parse_options(["header=true", "sep=="]) == {"header": "true", "sep": "="}
    assert parse_moment("2024-05-01T12:00:00+02:00") == parse_moment("2024-05-01T10:00:00")
    for texts in (["header"], ["a=1", "A=2"]):
        with pytest.raises(UserError):
            parse_options(texts)
    with pytest.raises(UserError):
        parse_moment("yesterday")
