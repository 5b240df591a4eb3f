"""Files in any encoding have the values that Python decodes, and records with undecodable bytes alone are corrupt."""

from __future__ import annotations

import csv
import io
import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.bronze.preview import preview
from sluicegate.definition import BronzeTable
from sluicegate.spark.session import override_settings
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Encodings, each with Python's name and characters that it has.
LATIN, CYRILLIC, CJK = "éÅß€“”ñ", "Жящ№", "漢字表テ中文"
ENCODINGS = {
    "windows-1252": ("cp1252", LATIN), "windows-1250": ("cp1250", "łŘžő€“"), "ISO-8859-15": ("iso8859-15", "éß€ñ"),
    "windows-1251": ("cp1251", CYRILLIC), "KOI8-R": ("koi8-r", "Жящ"), "IBM850": ("cp850", "éÅßñ"),
    "Shift_JIS": ("shift_jis", "漢字表テソ\\~"), "GB18030": ("gb18030", CJK + "😀\ufffd"),
    "Big5": ("big5", "中文功許蓋"),
    "EUC-JP": ("euc_jp", "漢字表テ"), "EUC-KR": ("euc_kr", "한국어"), "ISO-2022-JP": ("iso2022_jp", "漢字表テ"),
    "UTF-16": ("utf-16", CJK + "😀\ufffd\u0a0a\u010a\u0a0d"), "UTF-16LE": ("utf-16-le", "一\u0a0aĀ\u0a00😀"),
    "UTF-16BE": ("utf-16-be", "一\u0a0aĀ\u000b\u0a00"), "UTF-32": ("utf-32", CJK + "😀"),
    "UTF-32LE": ("utf-32-le", "é😀"),
    "cp1252": ("cp1252", LATIN), "UTF-8": ("utf-8", CJK + "😀\ufffdé"),
}  # fmt: skip
ROWS = 40
LIMIT = 100_000


def texts(rng: random.Random, characters: str) -> list[tuple[str, str]]:
    """Records of a number and a text."""
    return [(str(n), "".join(rng.choices(characters, k=rng.randint(1, 9)))) for n in range(ROWS)]


def as_csv(rows: list[tuple[str, str]], end: str) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator=end)
    writer.writerow(("n", "text"))
    writer.writerows(rows)
    return out.getvalue()


def landed(form: str, rows: list[tuple[str, str]], end: str) -> str:
    """Text of a file with some records."""
    match form:
        case "csv" | "several":
            return as_csv(rows, end)
        case "json":
            return "".join(json.dumps({"n": n, "text": t}, ensure_ascii=False) + end for n, t in rows)
        case "array":
            return json.dumps([{"n": n, "text": t} for n, t in rows], ensure_ascii=False)
        case "text":
            return "".join(f"{n} {t}{end}" for n, t in rows)
        case _:
            return "<r>" + "".join(f"<row><n>{n}</n><text>{t}x</text></row>{end}" for n, t in rows) + "</r>"


# Format, options and characters beside those of the encoding, of each way of reading.
WAYS = {
    "csv": ("csv", {"header": "true"}, ",; x"),
    "several": ("csv", {"header": "true", "multiLine": "true"}, ",; \n"),
    "json": ("json", {}, '"\\, \n'),
    "array": ("json", {"multiLine": "true"}, '"\\, \n'),
    "text": ("text", {}, ", x"),
    "xml": ("xml", {"rowTag": "row"}, "x"),
}


def read(spark: SparkSession, folder: Path, files: dict[str, bytes], form: str, **options: str) -> dict[str, Any]:
    """What a table's files give, without a table."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    table = BronzeTable.model_validate({"path": str(folder), "format": form, "options": options})
    paths = [str(folder / name) for name in files]
    return preview(spark, "things", table, str(folder.parent / "lake/p/bronze/things"), paths, LIMIT)


@pytest.mark.parametrize("seed", range(2))
def test_values_are_those_that_python_decodes(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    for number, (encoding, (codec, characters)) in enumerate(ENCODINGS.items()):
        way = list(WAYS)[(number + 3 * seed) % len(WAYS)]
        form, options, more = WAYS[way]
        characters = "".join(c for c in characters if c.isprintable()) if form == "xml" else characters
        rows = texts(rng, characters.replace("\\", "") + more if form == "csv" else characters + more)
        content = landed(way, rows, rng.choice(["\n", "\r\n"]))
        data = content.encode(rng.choice(["utf-16", "utf-16-le", "utf-16-be"]) if encoding == "UTF-16" else codec)
        got = read(spark, tmp_path / f"{number}", {"a": data}, form, **options, encoding=encoding)
        text = [(row["value"],) for row in got["sample"]] if form == "text" else []
        values = text or [(row["n"], row["text"]) for row in got["sample"]]
        wanted = {"text": [(f"{n} {t}",) for n, t in rows], "xml": [(n, f"{t}x") for n, t in rows]}.get(way, rows)
        assert sorted(values) == sorted(wanted), (encoding, way)
        assert (got["corrupt"], got["failed"]) == (0, {}), (encoding, way)


@pytest.mark.parametrize("way", WAYS)
def test_exactly_the_records_with_undecodable_bytes_are_corrupt(spark: SparkSession, tmp_path: Path, way: str) -> None:
    rng = random.Random(way)
    form, options, _ = WAYS[way]
    for encoding, codec, wrong in (("UTF-8", "utf-8", [b"\xfc", b"\xc0\x80", b"\xed\xa0\x80", b"\xff\xfe"]),
                                   ("windows-1252", "cp1252", [b"\x81", b"\x9d"]),
                                   ("Shift_JIS", "shift_jis", [b"\xfd", b"\x81"])):  # fmt: skip
        kept = "\ufffd" if encoding == "UTF-8" else "x"
        rows = [(str(n), f"abc{kept}HERE") for n in range(ROWS)]
        data = landed(way, rows, "\n").encode(codec)
        bad = sorted(rng.sample(range(ROWS), 3))
        parts = data.split(b"HERE")
        content = (
            b"".join(part + (rng.choice(wrong) + b"!" if n in bad else b"") for n, part in enumerate(parts[:-1]))
            + parts[-1]
        )
        got = read(spark, tmp_path / encoding, {"a": content, "b": landed(way, rows, "\n").encode(codec)}, form,
                   **options, **({} if encoding == "UTF-8" else {"encoding": encoding}))  # fmt: skip
        assert got["failed"] == {}
        corrupt = [row["_corrupt_record"] for row in got["sample"] if row["_corrupt_record"] is not None]
        assert len(corrupt) == len(bad), (encoding, corrupt)
        assert all("\\x" in text and "\ufffd" not in text.replace(f"abc{kept}", "") for text in corrupt), corrupt
        good = [row for row in got["sample"] if row["_corrupt_record"] is None]
        numbers = [row["value"].split()[0] if form == "text" else row["n"] for row in good]
        assert sorted(map(int, numbers)) == sorted([*range(ROWS), *sorted(set(range(ROWS)) - set(bad))]), encoding


def test_a_run_finds_them_wherever_spark_splits_the_files(spark: SparkSession, workspace: Workspace) -> None:
    """The job of an ordinary run replaces bytes in silence: it stops at what it may have replaced, and reads again."""
    ways = {way: WAYS[way] for way in ("csv", "several", "json", "array", "text")}
    tables = "".join(
        f'  {way}: {{path: "${{landing}}/{way}", format: {form}, options: {json.dumps(options)}}}\n'
        for way, (form, options, _) in ways.items()
    )
    workspace.define(f"name: heart_rate\nbronze:\n{tables}")
    rng, count = random.Random(5), 3_000
    rows = [(str(n), "x" * rng.randint(1, 500) + "\ufffdHERE") for n in range(count)]
    bad = {0, 1, count - 1, *rng.sample(range(count), 6)}
    for way in ways:
        (workspace.folder / "landing" / way).mkdir(parents=True)
        parts = landed(way, rows, "\n").encode().split(b"HERE")
        content = b"".join(part + (b"\xfc" if n in bad else b"") for n, part in enumerate(parts[:-1])) + parts[-1]
        workspace.land(f"{way}/a.txt", content)
        workspace.land(f"{way}/b.txt", landed(way, [("b", "\ufffd")], "\n"))
    with override_settings(spark, {"spark.sql.files.maxPartitionBytes": "100000"}):
        reports = workspace.run(spark, "bronze")
    for way in ways:
        assert (reports[way].read, reports[way].corrupt, reports[way].failed) == (count + 1, len(bad), {}), way
        column = "value" if way == "text" else "text"
        got = workspace.rows(way, column, "_corrupt_record", "source_file")
        texts_of_good = [text.split()[1] if way == "text" else text for text, corrupt, _ in got if corrupt is None]
        assert sorted(texts_of_good) == sorted(
            ["\ufffd", *[text.replace("HERE", "") for n, (_, text) in enumerate(rows) if n not in bad]]
        ), way
        assert {corrupt.count("\ufffd\\xfc") for _, corrupt, _ in got if corrupt is not None} == {1}, way
        assert {file.rpartition("/")[2] for *_, file in got} == {"a.txt", "b.txt"}, way
    assert not list(workspace.folder.glob("lake/*/_state/*_decoded"))


def test_a_file_has_one_name_whether_or_not_it_is_read_from_a_copy(spark: SparkSession, workspace: Workspace) -> None:
    """In ``source_file`` and in ``_rescued_data``, as people join and filter by it."""
    as_landed, from_copies = "{header: true}", "{header: true, encoding: windows-1252}"
    tables = "".join(
        f'  {name}: {{path: "${{landing}}/{name}", format: csv, options: {options}, schemaHints: n INT}}\n'
        for name, options in (("plain", as_landed), ("latin", from_copies))
    )
    workspace.define(f"name: heart_rate\nbronze:\n{tables}")
    odd = ["a", "b c", "d\u00a0e", "f\u3000g", "h%20i", "l\x7fm", "é", "j[k]{l}", "m:n", "o,p#q?"]
    for name in odd:
        for table in ("plain", "latin"):
            workspace.land(f"{table}/{name}.csv", "n\nno number\n", age=90)
    workspace.run(spark, "bronze")
    names = {
        table: {
            (source.replace(f"/{table}/", "/"), json.loads(rescued)["_file_path"].replace(f"/{table}/", "/"))
            for source, rescued in workspace.rows(table, "source_file", "_rescued_data")
        }
        for table in ("plain", "latin")
    }
    assert names["latin"] == names["plain"]
    assert len(names["plain"]) == len(odd)
    assert all(source == rescued for source, rescued in names["plain"])


def test_a_header_with_an_undecodable_byte_is_the_error_of_its_file(spark: SparkSession, workspace: Workspace) -> None:
    """With multiLine, too, where a sentinel stands for such a byte in a copy: no column is called by it."""
    options = "{header: true, multiLine: true, encoding: windows-1252}"
    workspace.define(
        f'name: heart_rate\nbronze:\n  things: {{path: "${{landing}}/things", format: csv, options: {options}}}\n'
    )
    workspace.land("things/a.csv", b'n,"na\n\x81me"\n1,2\n', age=90)
    workspace.land("things/b.csv", b"n,name\n3,\x81\n4,x\n", age=90)
    report = workspace.run(spark, "bronze")["things"]
    [(path, why)] = report.failed.items()
    assert path.endswith("a.csv")
    assert "header" in why
    assert "0x81 in line 2" in why
    assert sorted(workspace.rows("things", "n", "name", "_corrupt_record"), key=str) == [
        ("4", "x", None), (None, None, "3,\\x81"),
    ]  # fmt: skip


def test_half_of_a_surrogate_pair_in_json_is_corrupt(spark: SparkSession, workspace: Workspace) -> None:
    workspace.define('name: heart_rate\nbronze:\n  things: {path: "${landing}/things", format: json}\n')
    (workspace.folder / "landing/things").mkdir(parents=True)
    lone = [r'{"a":"\ud800"}', r'{"a":"x\uDC00y"}', r'{"a":{"b":"\\\ud83d"}}']
    good = {r'{"a":"\ud83d\ude00"}': "😀", r'{"a":"\\ud800"}': r"\ud800", '{"a":"\ufffd"}': "\ufffd"}
    workspace.land("things/a.json", "\n".join([*lone, *good]))
    workspace.run(spark, "bronze")
    rows = workspace.rows("things", "a", "_corrupt_record")
    assert sorted(text for _, text in rows if text is not None) == sorted(lone)
    assert sorted(a for a, text in rows if text is None) == sorted(good.values())
