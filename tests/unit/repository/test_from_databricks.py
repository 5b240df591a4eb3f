"""What the pages for people from Databricks say to write is there: commands, options, fields, and queries that run."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sluicegate import definition
from sluicegate.definition import Pipeline
from sluicegate.errors import QueryError
from sluicegate.settings import Settings
from sluicegate.spark import metastore
from sluicegate.spark_sql.engine_columns import RESERVED
from sluicegate.tools.sqlshell import shell
from tests.support.offenders import offenders
from tests.unit.repository.test_docs import ROOT, check_command, prose, shell_lines

pytestmark = pytest.mark.unit

PAGE = ROOT / "docs" / "from-databricks.md"
QUERIES = ROOT / "docs" / "howto" / "querying.md"
PAGES = [PAGE, ROOT / "docs" / "databricks-platform.md", QUERIES]
SCHEMA = json.loads((ROOT / "docs" / "pipeline.schema.json").read_text())

# Names of this project that are neither commands nor fields: columns that tables have, the environment, and calls of
# the package deltalake. Each is looked up in its own way below.
COLUMNS = {"source_file", "receipt_time", "_rescued_data", "_corrupt_record"}
ENVIRONMENT = {metastore.ADDRESS}
CALLS = re.compile(r"DeltaTable\(path\)\.(\w+)\(")

# What stands on our side of a table and is no name of ours.
OTHERS = {
    "pipeline.yaml", "pipeline.table", "readChangeFeed", "get_json_object(profile, '$.address.city')",
    "get_json_object", "VERSION AS OF 3", "transform(courses, c -> c.course_id)", "size(filter(courses, c -> …)) > 0",
    "STREAM(table)",
}  # fmt: skip


def rows() -> Iterator[tuple[str, str]]:
    """What stands in the second and the third column of each row: what to write here, and the remark."""
    for line in itertools.chain(*(page.read_text().splitlines() for page in PAGES)):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) >= 2 and not set(line) <= set("| -") and cells[0] not in ("there", "refused"):
            yield cells[1], cells[2] if len(cells) > 2 else ""


def spans() -> list[str]:
    """Everything in back-ticks on our side, and the commands and options in remarks and text."""
    ours = [span for here, _ in rows() for span in re.findall(r"`([^`]+)`", here)]
    anywhere = re.findall(r"`((?:sluicegate |--)[^`]+)`", " ".join(" ".join(map(prose, PAGES)).split()))
    return [span for span in dict.fromkeys([*ours, *anywhere]) if span != "sluicegate sql"]


def fields(node: Any) -> Iterator[tuple[str, Any]]:
    """Each field of a definition with its schema, wherever it may stand."""
    if isinstance(node, dict):
        yield from node.get("properties", {}).items()
        for value in node.values():
            yield from fields(value)
    elif isinstance(node, list):
        for value in node:
            yield from fields(value)


def choices(node: Any) -> set[str] | None:
    """The values that a field may have, if these are counted out; None: it takes other values."""
    if "const" in node or "enum" in node:
        return {str(value) for value in node.get("enum", [node.get("const")])}
    parts = [choices(part) for part in node.get("anyOf", []) if part.get("type") != "null"]
    return None if not parts or None in parts else set[str]().union(*(part for part in parts if part))


def check_field(span: str) -> None:
    name, told, value = span.partition(": ")
    found = [schema for field, schema in fields(SCHEMA) if field == name]
    assert found, f"no definition has a field {name}"
    allowed = [choices(schema) for schema in found]
    if told and not value.startswith("{") and None not in allowed:
        assert value in set[str]().union(*(some for some in allowed if some)), span


def check_span(span: str) -> None:
    if span in OTHERS | COLUMNS | ENVIRONMENT:
        return
    if span.startswith("sluicegate "):
        check_command(span)
    elif span.startswith("--"):
        reference = (ROOT / "docs" / "reference" / "commands.md").read_text()  # which is held to the program
        assert re.search(rf"^\| `{span.split()[0]}[ `]", reference, re.MULTILINE), span
    elif call := CALLS.match(span):
        assert hasattr(DeltaTable, call[1])
    else:
        check_field(span)


def test_what_to_write_here_is_there() -> None:
    assert offenders(check_span, spans()) == []


@pytest.mark.parametrize(
    "span", ["sluicegate copy-intoo a b c", "sluicegate run p --evry 4s", "--validat", "schedul", "mode: all",
             "stored_as_scd_type: 3", "DeltaTable(path).load_changes(2)"],
)  # fmt: skip
def test_what_is_not_there_would_be_seen(span: str) -> None:
    with pytest.raises(BaseException):  # noqa: B017, PT011 (typer and pytest raise several kinds)
        check_span(span)


def test_columns_that_the_page_names_are_those_of_bronze() -> None:
    assert COLUMNS - set(RESERVED) == set()


def test_every_pipeline_is_on_the_page() -> None:
    named = {definition.parent.name for definition in (ROOT / "pipelines").glob("*/pipeline.yaml")}
    assert set(re.findall(r"\]\(\.\./pipelines/(\w+)/README\.md\)", PAGE.read_text())) == named


def test_the_definition_beside_the_notebook_is_one(tmp_path: Path) -> None:
    [shown] = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "pipeline.yaml").write_text(f"name: shop\n{shown}")
    there = definition.load("shop", Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path))
    assert [*there.bronze, *there.silver] == ["customers_landed", "customers"]


# The queries, on tables of the shape that the pipelines give them


@pytest.fixture(scope="module")
def school(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Pipeline], Settings]:
    folder = tmp_path_factory.mktemp("school")
    silver = folder / "lake" / "online_school" / "silver"
    courses = [
        {"course_id": "C01", "discount_percent": 0, "subtotal": 35.0},
        {"course_id": "C02", "discount_percent": 25, "subtotal": 18.0},
    ]
    days = [datetime(2025, 3, day, tzinfo=UTC) for day in (3, 4)]
    enrollments = {
        "enroll_id": ["1", "2"],
        "quantity": [2, 1],
        "student_id": ["S1", "S2"],
        "email": ["s1@mail.example", None],
        "formatted_timestamp": pa.array(days, pa.timestamp("us", "UTC")),
        "courses": [courses, courses[:1]],
    }
    students = {"student_id": ["S1", "S2", "S3"], "profile": ['{"address": {"city": "Oslo"}}'] * 3}
    write_deltalake(str(silver / "enrollments_silver"), pa.table(enrollments))
    write_deltalake(str(silver / "students_lookup"), pa.table(students))
    write_deltalake(str(folder / "lake/heart_rate/gold/device_counts"), pa.table({"device_id": [1], "total": [2]}))
    settings = Settings.of(str(folder / "lake"), str(folder / "landing"), ROOT / "pipelines")
    return {name: definition.load(name, settings) for name in ("online_school", "heart_rate")}, settings


def queries() -> list[str]:
    written = [shlex.split(span)[2] for span in spans() if span.startswith('sluicegate sql "')]
    return [*written, *(shlex.split(line)[2] for line in shell_lines(QUERIES) if line.startswith("sluicegate sql"))]


@pytest.mark.parametrize("query", queries())
def test_a_query_of_the_page_runs_without_spark(school: tuple[dict[str, Pipeline], Settings], query: str) -> None:
    assert shell.query(query, *school).num_rows > 0


def test_what_the_page_says_is_refused_is_refused(school: tuple[dict[str, Pipeline], Settings]) -> None:
    source = "online_school.enrollments_silver"
    for refused in (
        "SELECT profile:address.city FROM online_school.students_lookup",
        f"SELECT * FROM {source}@v0",
        "SELECT from_json(profile, 'address STRUCT<city STRING>') FROM online_school.students_lookup",
        f"SELECT courses.course_id FROM {source}",
        f"SELECT exists(courses, c -> c.subtotal > 0) FROM {source}",
        f"SELECT * FROM table_changes('{source}', 0)",
        "SELECT * FROM json.`landing/students`",
    ):
        with pytest.raises(QueryError):
            shell.query(refused, *school)
