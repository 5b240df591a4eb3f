"""CSV is read by RFC 4180: as Python's csv reads it, or a record is corrupt and has its text."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.bronze.ingest import READING
from sluicegate.bronze.reader import EXACT, Reader
from sluicegate.definition import BronzeTable
from sluicegate.monitor.estimate import plan
from sluicegate.schema.evolution import Schema
from sluicegate.spark.session import override_settings
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

Read = tuple[list[tuple[str, ...]], list[str]]
"""Values of the records of a file in their order, and the texts of its corrupt ones."""

PIECES = ["a", "7", "é", "😀", '"', '""', ",", "\t", "\\", '\\"', "\n", "\r\n", "\r", " ", "x y", "#", "'", ";", "12.5"]
QUOTING = [csv.QUOTE_ALL, csv.QUOTE_MINIMAL, csv.QUOTE_NONNUMERIC]


def read(
    spark: SparkSession, texts: list[str | bytes], folder: Path, **definition: Any
) -> tuple[list[Read], list[str]]:
    """What bronze reads of some files, in one ledger batch, and why it does not read some."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number}.csv" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    damaged: dict[str, str] = {}
    sizes = {str(path): path.stat().st_size for path in paths}
    table = BronzeTable.model_validate({"path": str(folder), "format": "csv", **definition})
    with override_settings(spark, {**READING, EXACT: "false"}):
        frame = Reader(spark, Schema("t", table, {}, first=True), damaged, sizes).read([*sizes])
        rows = sorted(frame.collect(), key=lambda row: row["_pos"])
    about = {"_rescued_data", "_corrupt_record", "receipt_time", "source_file", "_file_modification_time", "_pos"}
    names = [name for name in frame.columns if name not in about]
    of: dict[str, Read] = defaultdict(lambda: ([], []))
    for row in rows:
        good, corrupt = of["/" + row["source_file"].removeprefix("file:").lstrip("/")]
        if row["_corrupt_record"] is None:
            good.append(tuple(row[name] or "" for name in names))
        else:
            corrupt.append(row["_corrupt_record"])
    return [of[str(path)] for path in paths], [damaged.get(str(path), "") for path in paths]


def by_python(text: str, **style: Any) -> list[tuple[tuple[str, ...], range]]:
    """Records as Python's csv reads them, each with the numbers of its lines."""
    reader, found, begun = csv.reader(io.StringIO(text, newline=""), **style), [], 0
    for row in reader:
        found.append((tuple(row), range(begun, reader.line_num)))
        begun = reader.line_num
    return [(row, lines) for row, lines in found if any(value.strip() for value in row)]


def written(rows: list[list[Any]], **style: Any) -> str:
    file = io.StringIO(newline="")
    csv.writer(file, **style).writerows(rows)
    return file.getvalue()


def rows_of(chance: random.Random, count: int) -> list[list[Any]]:
    def value() -> Any:
        if chance.random() < 0.4:
            return chance.choice([chance.randrange(1000), "plain", "", "x"])
        return "".join(chance.choices(PIECES, k=chance.randrange(1, 6)))

    return [[number, value(), value()] for number in range(count)]


@pytest.mark.parametrize("separator", [",", "\t"])
@pytest.mark.parametrize("several", ["true", "false"])
@pytest.mark.parametrize("header", ["true", "false"])
def test_files_of_pythons_csv_are_read_as_python_reads_them(
    spark: SparkSession, tmp_path: Path, separator: str, several: str, header: str
) -> None:
    chance = random.Random(f"{separator}{several}{header}")
    texts, styles = [], []
    for _ in range(60):
        style = {"delimiter": separator, "quoting": chance.choice(QUOTING)}
        rows = rows_of(chance, chance.randrange(1, 12))
        ends = chance.choice(["\n", "\r\n"])
        texts.append(written([["id", "a_b", "ä"], *rows] if header == "true" else rows, lineterminator=ends, **style))
        styles.append(style)
    options = {"header": header, "sep": separator, "multiLine": several}
    results, damaged = read(spark, [*texts], tmp_path, options=options)
    assert not any(damaged)
    corrupt_records = 0
    for text, (good, corrupt) in zip(texts, results, strict=True):
        rows = [row for row, _ in by_python(text, delimiter=separator)][header == "true" :]
        expected = [row for row in rows if len(row) == 3]  # Python leaves a carriage return without quotes
        assert not Counter(good) - Counter(expected), (text, good, corrupt)
        corrupt_records += len(expected) - len(good)
        assert len(good) + len(corrupt) == len(rows), (text, good, corrupt)
    assert corrupt_records <= 5  # lines of a quoted text that might as well be records


def _trimmed(row: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(value.rstrip(" \t") for value in row)


def _as_number(value: str) -> str | float:
    """A value as QUOTE_NONNUMERIC takes it: a number has no quotes."""
    if value.isdecimal():
        return int(value)
    try:
        return float(value)
    except ValueError:
        return value


def _lines_of(rows: set[tuple[str, ...]]) -> set[str]:
    """Lines by which some records may be written."""
    with_numbers = [*rows, *(tuple(map(_as_number, row)) for row in rows)]
    found = (written([[*row]], quoting=how, lineterminator="\r\n") for row in with_numbers for how in QUOTING)
    return {line.rstrip() for text in found for line in io.StringIO(text, newline="")}


@pytest.mark.parametrize("several", ["true", "false"])
@pytest.mark.parametrize("header", ["true", "false"])
def test_a_quote_too_many_or_too_few_invents_no_record_and_loses_none(
    spark: SparkSession, tmp_path: Path, several: str, header: str
) -> None:
    chance = random.Random(f"damaged {several}{header}")
    texts, undamaged = [], []
    for _ in range(150):
        rows = rows_of(chance, chance.randrange(3, 12))
        undamaged.append(rows)
        text = written(rows, quoting=chance.choice(QUOTING), lineterminator=chance.choice(["\n", "\r\n"]))
        quotes = [at for at, char in enumerate(text) if char == '"']
        at = chance.randrange(len(text))
        if quotes and chance.random() < 0.5:
            at = chance.choice(quotes)
            text = text[:at] + text[at + 1 :]
        else:
            text = text[:at] + '"' + text[at:]
        texts.append("id,a,b\n" * (header == "true") + text)
    results, damaged = read(spark, [*texts], tmp_path, options={"header": header, "multiLine": several})
    for text, rows, (good, corrupt), reason in zip(texts, undamaged, results, damaged, strict=True):
        if reason:
            assert reason.startswith("line ")
            continue
        lines = list(io.StringIO(text, newline=""))
        whole = by_python(text)
        plain = [tuple(line.rstrip("\r\n").split(",")) for line in lines]
        alone = [next(iter(by_python(line)), ((), range(0)))[0] for line in lines]
        truth = {tuple(map(str, row)) for row in rows}
        # Spark, and so we, leave out blanks between a closing quote and the separator, which Python keeps.
        known = {_trimmed(row) for row in {*(row for row, _ in whole), *plain, *alone, *truth}}
        assert {_trimmed(row) for row in good} <= known, (text, good, corrupt)
        good = [*good, *(row for row, _ in whole if _trimmed(row) in {_trimmed(one) for one in good})]
        right = _lines_of(truth & set(good))
        for number, line in enumerate(lines):
            if not line.strip() or (number == 0 and header == "true"):
                continue
            kept = {plain[number], alone[number]} & set(good) or any(line.rstrip("\r\n") in one for one in corrupt)
            kept = kept or any(row in good for row, its in whole if number in its)
            assert kept or line.rstrip() in right, (number, text, good, corrupt)


CSV = """
name: heart_rate
bronze:
  things: {path: "${landing}/things", format: csv, options: {header: true}, EXTRA}
"""


def test_a_run_tells_of_a_table_that_was_read_by_the_former_default(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define(CSV.replace("EXTRA", "dialect: spark"))
    workspace.land("things/1.csv", 'id,t\n1,"a \\" b"\n')
    assert not workspace.run(spark, "bronze")["things"].warnings
    assert workspace.rows("things", "id", "t") == [("1", 'a " b')]
    # As a version wrote it that knew no dialect.
    log = sorted((Path(workspace.lake.table("bronze", "things")) / "_delta_log").glob("*.json"))
    for path in log:
        path.write_text(re.sub(r', ?\\"dialect\\": ?\\"spark\\"', "", path.read_text()))
    assert not any("dialect" in path.read_text() for path in log)
    assert plan(workspace.definition, workspace.settings).remarks == []
    workspace.define(CSV.replace("EXTRA", "maxFilesPerTrigger: 1000"))
    workspace.land("things/2.csv", 'id,t\n2,"C:\\"\n')
    [remark] = plan(workspace.definition, workspace.settings).remarks
    assert "things was read in Spark's CSV dialect" in remark
    assert workspace.run(spark, "bronze")["things"].warnings == [remark]
    workspace.land("things/3.csv", 'id,t\n3,"say ""x"""\n')
    assert not workspace.run(spark, "bronze")["things"].warnings
    assert plan(workspace.definition, workspace.settings).remarks == []
    assert sorted(workspace.rows("things", "id", "t")) == [("1", 'a " b'), ("2", "C:\\"), ("3", 'say "x"')]


def test_names_with_blanks_are_told_of_and_two_of_one_name_are_told_apart(
    spark: SparkSession, workspace: Workspace
) -> None:
    workspace.define(CSV.replace("EXTRA", 'schemaHints: "a INT"'))
    workspace.land("things/1.csv", "a,a,a_2, city\nx,y,z,Rome\n")
    [warning] = workspace.run(spark, "bronze")["things"].warnings
    assert '" city"' in warning
    [(rescued,)] = workspace.rows("things", "_rescued_data")
    assert {**json.loads(rescued), "_file_path": ""} == {"a": "x", "a_3": "y", " city": "Rome", "_file_path": ""}


def test_other_characters_mean_what_the_definition_says(spark: SparkSession, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str | bytes, list[tuple[str, ...]], list[str]]] = [
        ({"escape": ""}, 'a,b\n1,""\n"",""\n"x","C:\\"\n', [("1", ""), ("", ""), ("x", "C:\\")], []),
        ({"quote": "'"}, "a,b\n1,'x,''y'''\n2,\"z\"\n", [("1", "x,'y'"), ("2", '"z"')], []),
        ({"quote": ""}, 'a,b\n1,"x\n2,"z"\n', [("1", '"x'), ("2", '"z"')], []),
        ({"escape": "\\"}, 'a,b\n1,"x \\" y"\n2,"q""r"\n', [("1", 'x " y')], ['2,"q""r"']),
        ({"sep": "||"}, 'a||b\n1||"x||y"\n2||"z\nw"\n3||"q\n', [("1", "x||y"), ("2", "z\nw")], ['3||"q']),
        ({"comment": "#"}, 'a,b\n#"c\n1,"z\n#w"\n', [("1", "z\n#w")], []),
    ]  # fmt: skip
    for number, (options, text, good, corrupt) in enumerate(cases):
        [found], _ = read(spark, [text], tmp_path / str(number), options={"header": "true", **options})
        assert found == (good, corrupt), options


def test_a_header_has_line_breaks_in_quotes_and_one_that_is_never_closed_fails_its_file(
    spark: SparkSession, workspace: Workspace
) -> None:
    workspace.define(CSV.replace("EXTRA", "columnNames: normalized"))
    workspace.land("things/1.csv", '"id,t\n1,x\n')
    workspace.land("things/2.csv", '"id\nno",t\n1,x\n')
    report = workspace.run(spark, "bronze")["things"]
    assert [path.endswith("1.csv") for path in report.failed] == [True]
    assert workspace.rows("things", "id_no", "t") == [("1", "x")]
