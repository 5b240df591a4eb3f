"""Silver tables whose records give many rows: what their definition may say, and each mistake with a mend."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate import definition
from sluicegate.definition import Pipeline
from sluicegate.errors import DefinitionError, Mistake
from sluicegate.settings import Settings
from sluicegate.spark_sql.query import Query

pytestmark = pytest.mark.unit

HEAD = """\
name: p
bronze:
  raw: {path: /x, format: json, schemaHints: "id INT, seq INT"}
silver:
"""
LINES = "SELECT o.id, l.sku FROM STREAM(raw) AS o LATERAL VIEW explode(o.lines) AS l"


def load(tmp_path: Path, silver: str, **files: str) -> Pipeline:
    folder = tmp_path / "pipelines" / "p"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.yaml").write_text(HEAD + silver)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return definition.load("p", Settings.of(str(tmp_path / "lake"), str(tmp_path), tmp_path / "pipelines"))


def mistake(tmp_path: Path, silver: str, **files: str) -> Mistake:
    with pytest.raises(DefinitionError) as raised:
        load(tmp_path, silver, **files)
    [found] = raised.value.mistakes
    return found


@pytest.mark.parametrize(
    "text",
    [
        LINES,
        "SELECT id, explode(xs) AS x FROM STREAM(raw)",
        "SELECT id, posexplode_outer(xs) AS (n, x) FROM STREAM(raw)",
        "SELECT id, inline(xs) AS (a, b) FROM STREAM(raw)",
        "SELECT o.id, a, b FROM STREAM(raw) AS o LATERAL VIEW OUTER inline(o.xs) AS a, b WHERE a > 1",
        "SELECT o.id, x, y FROM STREAM(raw) AS o LATERAL VIEW explode(o.xs) AS x LATERAL VIEW explode(x.ys) AS y",
        "SELECT o.id, l.x FROM STREAM(raw) AS o JOIN LATERAL explode(o.xs) AS l(x)",
        "SELECT o.id, CAST(l.x AS INT) AS x FROM STREAM(raw) AS o LATERAL VIEW explode(o.xs) l AS x",
        "SELECT o.id, l.x FROM STREAM(raw) AS o LATERAL VIEW explode(split(TRY_CAST(o.n AS STRING), ',')) l AS x",
    ],
)
def test_generators_and_lateral_views_are_for_tables_that_say_so(tmp_path: Path, text: str) -> None:
    made = load(tmp_path, "  t: {sql: t.sql, rows: many}\n", t__sql=text).silver["t"]
    assert made.gives_many_rows
    assert Query.parse(text).stream_objections(many=True) == []
    assert "many=" not in Query.parse(text).text_with_identity({"raw": "v"}, many=True)


def test_the_rewritten_text_keeps_the_lateral_view() -> None:
    text = "SELECT o.id, CAST(x AS INT) AS x FROM STREAM(raw) AS o LATERAL VIEW explode(o.xs) l AS x WHERE x > 1"
    assert Query.parse(text).text_with_identity({"raw": "v"}, many=True) == (
        "SELECT o.id, TRY_CAST(x AS INT) AS x, o._chunk AS _chunk, o._pos AS _pos, "
        "o._sluicegate_record AS _sluicegate_record, "
        "((x) IS NOT NULL AND TRY_CAST((x) AS INT) IS NULL) AS _sluicegate_cast_0 "
        "FROM v AS o LATERAL VIEW explode(o.xs) l AS x WHERE x > 1"
    )


def test_a_generator_without_the_word_is_told_what_to_write(tmp_path: Path) -> None:
    found = mistake(tmp_path, "  t: {sql: t.sql}\n", t__sql="SELECT id,\n  explode(xs) AS x\nFROM STREAM(raw)\n")
    assert (found.line, found.path) == (2, "silver.t.sql")
    assert found.message == ("EXPLODE returns several rows for one record: set `rows: many` in the table's definition")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id,\n  explode(sequence(1, CAST(n AS INT))) AS x\nFROM STREAM(raw)",
        "SELECT o.id, x FROM STREAM(raw) AS o\nLATERAL VIEW explode(array(CAST(o.n AS INT))) l AS x",
        "SELECT o.id, x FROM STREAM(raw) AS o\nLATERAL VIEW explode(CAST(o.n AS ARRAY<INT>)) l AS x",
        "SELECT o.id, x FROM STREAM(raw) AS o\nJOIN LATERAL explode(array(CAST(o.n AS INT))) AS l(x)",
    ],
)
def test_a_cast_that_could_fail_without_a_row_to_tell(tmp_path: Path, text: str) -> None:
    found = mistake(tmp_path, "  t: {sql: t.sql, rows: many}\n", t__sql=text)
    assert found.line == 2
    assert "in EXPLODE(…)" in found.message
    assert "TRY_CAST" in found.message


def test_a_cast_to_an_array_is_told_once(tmp_path: Path) -> None:
    text = "SELECT id, explode(CAST(xs AS ARRAY<INT>)) AS x FROM STREAM(raw)"
    assert "which of its values" in mistake(tmp_path, "  t: {sql: t.sql, rows: many}\n", t__sql=text).message


def test_columns_of_a_generator_need_names(tmp_path: Path) -> None:
    found = mistake(tmp_path, "  t: {sql: t.sql, rows: many}\n", t__sql="SELECT id,\n inline(xs) FROM STREAM(raw)")
    assert (found.line, found.message) == (2, "an expression has no column name: add AS (name, …)")


def test_what_takes_records_together_stays_refused(tmp_path: Path) -> None:
    text = "SELECT o.id, count(*) AS n FROM STREAM(raw) AS o LATERAL VIEW explode(o.xs) l AS x"
    assert "several records" in mistake(tmp_path, "  t: {sql: t.sql, rows: many}\n",
                                                            t__sql=text).message  # fmt: skip


def test_changes_are_one_row_of_a_record(tmp_path: Path) -> None:
    found = mistake(tmp_path, """\
  t:
    from: raw
    apply_changes: {keys: [id], sequence_by: seq}
    rows: many
""")  # fmt: skip
    assert (found.line, found.path) == (8, "silver.t.rows")
    assert "apply_changes" in found.message
    assert found.hint == "split the records in a silver table that this one reads"


@pytest.mark.parametrize("between", ["", "  passed: {sql: 'SELECT id, sku FROM STREAM(lines) AS l'}\n"])
def test_many_rows_of_a_row_of_many(tmp_path: Path, between: str) -> None:
    stream = "passed" if between else "lines"
    found = mistake(tmp_path, f"""\
  lines: {{sql: lines.sql, rows: many}}
{between}\
  t:
    sql: SELECT id, explode(split(sku, '')) AS c FROM STREAM({stream}) AS l
    rows: many
""", lines__sql=LINES)  # fmt: skip
    assert (found.line, found.path) == (9 if between else 8, "silver.t.rows")
    assert found.message == "rows: many twice: lines already returns many rows for each record, and t reads lines"
    assert found.hint == "return all rows in the query of lines, or move this step to gold"


def test_rows_of_a_record_can_be_read_one_by_one(tmp_path: Path) -> None:
    pipeline = load(tmp_path, """\
  lines: {sql: lines.sql, rows: many, quarantine: record, keys: [id, sku]}
  latest: {from: lines, apply_changes: {keys: [sku], sequence_by: id, stored_as_scd_type: 2}}
""", lines__sql=LINES)  # fmt: skip
    assert [table.gives_many_rows for table in pipeline.silver.values()] == [True, False]


def test_quarantine_by_record_wants_many_rows(tmp_path: Path) -> None:
    found = mistake(tmp_path, "  t:\n    sql: SELECT id FROM STREAM(raw) AS o\n    quarantine: record\n")
    assert (found.line, found.path) == (7, "silver.t.quarantine")
    assert found.message == "quarantine: record requires rows: many"
    assert found.hint == "remove it, or set rows: many"


def test_quarantine_by_record_does_not_go_with_unique(tmp_path: Path) -> None:
    found = mistake(tmp_path, """\
  t:
    sql: lines.sql
    rows: many
    quarantine: record
    expectations:
      once: {expect_or_quarantine: unique(sku)}
""", lines__sql=LINES)  # fmt: skip
    assert (found.line, found.path) == (10, "silver.t.expectations.once")
    assert found.message == "unique is evaluated for each row and cannot be combined with quarantine: record"
    assert found.hint == "move the rule to a silver table that reads this one"


def test_a_name_of_the_engine_is_reserved(tmp_path: Path) -> None:
    found = mistake(tmp_path, "  t: {sql: t.sql}\n", t__sql="SELECT id AS _record_row FROM STREAM(raw) AS o")
    assert "_record_row is" in found.message


def test_tables_of_before_have_the_fingerprint_of_before(tmp_path: Path) -> None:
    """Else each of them would be told to have rows of another definition."""
    silver = "  t: {sql: 'SELECT id, n FROM STREAM(raw) AS o'OTHERS}\n"

    def fingerprint(others: str) -> str:
        return load(tmp_path, silver.replace("OTHERS", others)).silver["t"].fingerprint

    usual = fingerprint("")
    assert usual == "d383e279e4f9a6dd4fbf91354e09d5a76668244a0aafd367d24161a41434b621"
    assert fingerprint(", rows: one, quarantine: row") == usual
    with_rule = fingerprint(", expectations: {sound: {expect_or_drop: n > 0}}")
    assert with_rule == "0c285c40801fff2c9a5bdea70e6f8aa242079c3cfd0b3d41b42a731589e09931"
    assert fingerprint(", rows: many") != usual
    assert fingerprint(", rows: many, quarantine: record") != fingerprint(", rows: many")
