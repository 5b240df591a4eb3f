"""Sequences that are text which nobody has given a type, and those that are somebody's word."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate import definition
from sluicegate.definition import Pipeline
from sluicegate.errors import DefinitionError, Mistake
from sluicegate.settings import Settings

pytestmark = pytest.mark.unit


def load(tmp_path: Path, bronze: str, silver: str) -> Pipeline:
    folder = tmp_path / "pipelines" / "p"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.yaml").write_text(f"name: p\nbronze:\n  raw: {{path: /x, {bronze}}}\nsilver:\n{silver}\n")
    return definition.load("p", Settings.of(str(tmp_path / "lake"), str(tmp_path), tmp_path / "pipelines"))


def mistake(tmp_path: Path, bronze: str, silver: str) -> Mistake:
    with pytest.raises(DefinitionError) as raised:
        load(tmp_path, bronze, silver)
    [found] = raised.value.mistakes
    return found


FROM = "  t: {from: raw, apply_changes: {keys: [id], sequence_by: seq}}"
SNAPSHOTS = "  t: {from: raw, apply_changes_from_snapshot: {keys: [id], sequence_by: seq}}"


def keyed(query: str, more: str = "") -> str:
    return f'  t: {{sql: "{query}", keys: [id], sequence_by: seq{more}}}'


UNTYPED = ["format: csv, options: {header: true}", "format: json", "format: json, schemaHints: id INT"]


@pytest.mark.parametrize(
    "silver",
    [
        FROM,
        SNAPSHOTS,
        keyed("SELECT * FROM STREAM(raw)"),
        keyed("SELECT id, seq FROM STREAM(raw)"),
        keyed("SELECT id, r.SEQ AS seq FROM STREAM(raw) AS r"),
        keyed("SELECT id FROM STREAM(raw)"),
        keyed("SELECT r.id, r.seq, n.name FROM STREAM(raw) AS r LEFT JOIN other AS n ON r.id = n.id")
        + '\n  other: {sql: "SELECT id, name FROM STREAM(raw)"}',
        '  s: {sql: "SELECT * FROM STREAM(raw)"}\n  t: {from: s, apply_changes: {keys: [id], sequence_by: seq}}',
        '  t: {keys: [id], sequence_by: seq, flows: {a: {from: raw}, b: {sql: "SELECT id, 1 seq FROM STREAM(raw)"}}}',
    ],
)
@pytest.mark.parametrize("bronze", UNTYPED)
def test_text_without_a_type_orders_nothing(tmp_path: Path, bronze: str, silver: str) -> None:
    found = mistake(tmp_path, bronze, silver)
    assert (found.code, found.path.split(".")[1], found.path.split(".")[-1]) == ("untyped-sequence", "t", "sequence_by")
    assert "text" in found.message
    assert "schemaHints of raw" in found.hint
    assert "CAST(" in found.hint


def test_a_column_of_the_path_is_text(tmp_path: Path) -> None:
    found = mistake(tmp_path, "format: json, schema: id INT, partitionColumns: [seq]", SNAPSHOTS)
    assert "schema of raw" in found.hint


@pytest.mark.parametrize(
    ("bronze", "silver"),
    [
        ('format: csv, schemaHints: "seq BIGINT"', FROM),
        ('format: csv, schemaHints: "Seq STRING"', FROM),  # the user's own word
        ('format: json, schema: "id INT, seq STRING"', SNAPSHOTS),
        ("format: json, inferColumnTypes: true", FROM),
        ("format: parquet", FROM),
        ("format: delta", FROM),
        ("format: csv", FROM.replace("by: seq", "by: _file_modification_time")),
        ("format: csv", keyed("SELECT id, CAST(seq AS BIGINT) AS seq FROM STREAM(raw)")),
        ("format: csv", keyed("SELECT * EXCEPT (seq), CAST(seq AS STRING) AS seq FROM STREAM(raw)")),
        ("format: csv", keyed("SELECT id, seq FROM STREAM(raw)", ', schema: "id INT, seq INT"')),
        ("format: csv", keyed("SELECT r.id, n.seq FROM STREAM(raw) AS r JOIN o AS n ON r.id = n.id")
         + '\n  o: {sql: "SELECT id, 1 AS seq FROM STREAM(raw)"}'),
        ("format: csv", '  s: {sql: "SELECT id, CAST(n AS INT) AS seq FROM STREAM(raw)"}\n'
         "  t: {from: s, apply_changes: {keys: [id], sequence_by: seq}}"),
    ],
)  # fmt: skip
def test_what_has_a_type_or_is_made_does(tmp_path: Path, bronze: str, silver: str) -> None:
    assert load(tmp_path, bronze, silver).silver["t"].keys is not None
