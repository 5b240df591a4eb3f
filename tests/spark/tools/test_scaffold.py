"""Pipelines that `sluicegate new` writes, run on the files that they were made from, against plain Python."""

from __future__ import annotations

import csv
import gzip
import itertools
import json
import zipfile
from collections import Counter, defaultdict
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from sluicegate.frames.rules.row_rules import LENIENT
from sluicegate.monitor import status
from sluicegate.spark.session import override_settings
from sluicegate.tools.scaffold.create import create
from sluicegate.tools.scaffold.near_types import is_cast
from sluicegate.tools.scaffold.readings import Kind, written_numbers
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WORDS = ["plain", 'say "hi"', "a;b", "line\nbreak", "back\\slash", "ä, ö", "'quoted'"]


def made(folder: Path, name: str, *sources: str) -> Workspace:
    """A new pipeline, its files landed long enough ago."""
    workspace = Workspace(folder, name)
    create(name, sources, workspace.settings, land=True, header=None)
    return workspace


def run(spark: SparkSession, workspace: Workspace) -> dict[str, Any]:
    workspace.edit("pipeline.yaml", "    format:", "    settleSeconds: 0\n    format:")
    reports = workspace.run(spark)
    assert status.verify(workspace.definition, workspace.settings) == []
    return reports


def readings(first: int, count: int) -> list[dict[str, str]]:
    """Records of trackers, all values in quotes, as these send them."""
    return [
        {
            "device_id": str(n % 3),
            "mrn": str(70000 + n % 4),
            "time": str(1_740_787_200.5 + n * 7_200),
            "heartrate": str(60 + n % 9 + 0.25),
        }
        for n in range(first, first + count)
    ]


def test_readings_and_patients_reach_gold(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "mine"
    for number in range(3):
        file = source / "recordings" / f"{number:02d}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(readings(number * 40, 40)))
    (source / "patients").mkdir()
    (source / "patients" / "patient info.csv").write_text("mrn,name\n70000,Ann\n70001,Ben\n70002,Cem\n70003,Dee\n")

    workspace = made(tmp_path, "mine", str(source))
    reports = run(spark, workspace)

    assert {name: reports[name].written for name in ("recordings", "patients")} == {"recordings": 120, "patients": 4}
    assert workspace.definition.silver["recordings"].keys == ["device_id", "time"]
    assert workspace.definition.silver["patients"].keys == ["mrn"]
    assert workspace.definition.silver["patients"].pii == ["name"]
    days: dict[Any, list[float]] = defaultdict(list)
    for one in readings(0, 120):
        days[datetime.fromtimestamp(float(one["time"]), UTC).date()].append(float(one["heartrate"]))
    found = {row[0].date(): row[1:] for row in workspace.rows("recordings_by_day", "day", "records", "avg_heartrate")}
    assert len(found) == 10
    assert found == {day: (len(rates), sum(rates) / len(rates)) for day, rates in days.items()}


@pytest.mark.more
def test_numbers_as_programs_write_them_are_those_numbers(spark: SparkSession, tmp_path: Path) -> None:
    """Of files with a header over decimal commas, too; later files have other digits than those looked at."""
    first, later = [n / 7 for n in range(1, 40)], [1.2345678901234568e-15, 1.7976931348623157e308, 0.1 + 0.2]
    (tmp_path / "a.csv").write_text("Ort;Wert;Menge\n" + "".join(f"p{n};{v!r};{n},5\n" for n, v in enumerate(first)))

    workspace = made(tmp_path, "numbers", str(tmp_path / "a.csv"))
    run(spark, workspace)
    workspace.land("numbers/a/b.csv", "Ort;Wert;Menge\n" + "".join(f"q{n};{v!r};1,25\n" for n, v in enumerate(later)))
    workspace.run(spark)

    expected = [(value, number + 0.5) for number, value in enumerate(first)] + [(value, 1.25) for value in later]
    assert sorted(workspace.rows("a", "wert", "menge")) == sorted(expected)
    assert workspace.rows("a_quarantine") == []


@pytest.mark.more
def test_values_as_people_write_them_are_cast_and_other_ones_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    """Days and times of one format, money, thousands, percent, yes and no, and words for nothing."""
    header = "id,day,at,closed,price,people,share,paid,seats\n"
    times = "12/{n}/2024,{n}.1.2024 1{last}:30,{n}-Nov-23"
    null = "\\N"
    rows = [
        f'{n},{times.format(n=n, last=n % 10)},"$1,{n:03d}.50","{n},571",{n}.5%,'
        f"{'yes' if n % 2 else 'No'},{null if n % 3 else n}"
        for n in range(1, 29)
    ]
    (tmp_path / "a.csv").write_text(header + "".join(f"{row}\n" for row in rows))
    workspace = made(tmp_path, "written", str(tmp_path / "a.csv"))
    run(spark, workspace)
    good = times.format(n=14, last=1)
    odd = [f"29,{good.replace('12/14', '14/12')},,,,,", f"30,{good},$7,,,,", f'31,{good},"$7,5",,,,']
    workspace.land("written/a/b.csv", header + "".join(f"{row}\n" for row in odd))
    workspace.run(spark)

    columns = [column.strip() for column in header.split(",")]
    expected = [
        (n, date(2024, 12, n), datetime(2024, 1, n, 10 + n % 10, 30, tzinfo=UTC), date(2023, 11, n), 1000.5 + n,
         n * 1000 + 571, n + 0.5, n % 2 == 1, None if n % 3 else n)
        for n in range(1, 29)
    ]  # fmt: skip
    assert sorted(workspace.rows("a", *columns))[:28] == expected
    assert [row[0] for row in workspace.rows("a", "id") if row[0] > 28] == [30]
    quarantined = [json.loads(record)["id"] for (record,) in workspace.rows("a_quarantine", "_record")]
    assert sorted(quarantined) == ["29", "31"]


@pytest.mark.more
def test_names_quotes_and_separators_come_through(spark: SparkSession, tmp_path: Path) -> None:
    """Names that Delta refuses, values with all that CSV quotes, a byte-order mark, decimal commas, words for none."""
    header = [
        "Order ID",
        "when?",
        "select",
        "a;b",
        "größe",
        "it's",
        "note",
        "Note",
        "note",
        "n.a",
        " lead",
        "drop table x; --",
    ]
    rows = [
        [str(n), f"2024-05-{n % 3 + 1:02d} 10:00:00", f"s{n % 2}", f"{n},5", str(n), "y", WORDS[n % 7], "N", "second",
         "NA" if n % 5 == 0 else str(n * 2), "x", f"007{n}"]
        for n in range(1, 31)
    ]  # fmt: skip
    file = tmp_path / "Ödd Orders (1).csv"
    with file.open("w", encoding="utf-8-sig", newline="") as out:
        csv.writer(out, delimiter=";").writerows([header, *rows])

    workspace = made(tmp_path, "odd", str(file))
    table = next(iter(workspace.definition.silver))
    reports = run(spark, workspace)

    assert table == "odd_orders_1"
    assert (reports[table].written, reports[table].quarantined) == (30, 0)
    columns = [
        "order_id",
        "when",
        "select",
        "a_b",
        "grosse",
        "it_s",
        "note",
        "note_2",
        "note_3",
        "n.a",
        "lead",
        "drop_table_x",
    ]
    columns = [c if c != "n.a" else "n_a" for c in columns]
    expected = [
        (int(r[0]), datetime.fromisoformat(r[1]).replace(tzinfo=UTC), r[2], float(r[3].replace(",", ".")), int(r[4]),
         *r[5:8], r[8], None if r[9] == "NA" else int(r[9]), *r[10:])
        for r in rows
    ]  # fmt: skip
    assert sorted(workspace.rows(table, *columns)) == sorted(expected)
    totals = Counter(r[1][:10] for r in rows)
    assert {str(day)[:10]: n for day, n in workspace.rows(f"{table}_by_day", "day", "records")} == dict(totals)


@pytest.mark.more
def test_what_does_not_fit_later_is_quarantined(spark: SparkSession, tmp_path: Path) -> None:
    """The types are guesses from some rows: what comes later and is other is seen, not lost."""
    (tmp_path / "sales.csv").write_text("id,amount,shop\n" + "".join(f"{n},{n}.5,s{n % 2}\n" for n in range(20)))
    workspace = made(tmp_path, "shop", str(tmp_path / "sales.csv"))
    run(spark, workspace)
    workspace.land("shop/sales/more.csv", "id,amount,shop\n20,many,s0\n,3,s1\n21,1e2,s0\n")
    done = workspace.run(spark)["sales"]
    assert (done.read, done.written, done.quarantined) == (3, 1, 2)
    amounts = {shop: total for shop, total in workspace.rows("sales_by_shop", "shop", "sum_amount")}
    assert amounts == {s: sum(n + 0.5 for n in range(20) if f"s{n % 2}" == s) + 100 * (s == "s0") for s in ("s0", "s1")}


@pytest.mark.more
def test_each_format_comes_through(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet, packed JSON lines with nested values, CSV without a header, and text that is no UTF-8."""
    times = [datetime(2024, 1, n % 5 + 1, 12, tzinfo=UTC) for n in range(25)]
    parquet.write_table(
        pa.table({"id": range(25), "at": times, "price": [Decimal(n) / 4 for n in range(25)], "tags": [["a"]] * 25}),
        tmp_path / "items.parquet",
    )
    lines = [
        {"id": n, "deep": {"x": [n, n + 0.5]}, "big": 12345678901234567890123 + n, "ok": n % 2 == 0} for n in range(12)
    ]
    with gzip.open(tmp_path / "events.jsonl.gz", "wt") as out:
        out.writelines(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "plain.tsv").write_text("".join(f"{n}\t2024-01-0{n % 9 + 1}\tx{n % 3}\n" for n in range(18)))
    (tmp_path / "latin.csv").write_bytes("id|city\n1|Köln\n2|Århus\n".encode("iso-8859-1"))

    names = ("items.parquet", "events.jsonl.gz", "plain.tsv", "latin.csv")
    workspace = made(tmp_path, "mixed", *[str(tmp_path / name) for name in names])
    reports = run(spark, workspace)

    assert {n: reports[n].written for n in ("items", "events", "plain", "latin")} == {
        "items": 25, "events": 12, "plain": 18, "latin": 2,
    }  # fmt: skip
    assert sorted(workspace.rows("latin", "id", "city")) == [(1, "Köln"), (2, "Århus")]
    assert sorted(workspace.rows("events", "id", "deep", "big", "ok")) == [
        (line["id"], {"x": [float(v) for v in line["deep"]["x"]]}, Decimal(line["big"]), line["ok"])  # type: ignore[index, attr-defined]
        for line in lines
    ]
    assert (
        sorted(str(day) for _, day, _ in workspace.rows("plain", "column_1", "column_2", "column_3"))[-1]
        == "2024-01-09"
    )
    assert sum(n for _, n in workspace.rows("items_by_day", "day", "records")) == 25


@pytest.mark.more
def test_bad_values_are_kept_beside_and_copies_of_rows_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    """Two dirty files of CSV and one of JSON, of which all is kept: in the table, in quarantine, or set aside."""
    bad = {13: ("quantity", "twelve"), 29: ("ordered_at", "2024-02-30 10:00:00"), 31: ("paid", "perhaps"),
           402: ("quantity", "1,5"), 410: ("ordered_at", "soon"), 1555: ("quantity", "?!")}  # fmt: skip
    names = ["order_id", "ordered_at", "shop", "quantity", "paid"]
    orders = [
        dict(zip(names, [f"o{n}", f"2024-01-{n % 28 + 1:02d} 10:00:00", f"s{n % 3}", str(n % 7), "true"], strict=True))
        for n in range(2400)
    ]
    for n, (column, value) in bad.items():
        orders[n][column] = value
    orders[50]["quantity"], orders[60]["quantity"], orders[70]["quantity"] = "NA", "-", "null"
    copied = [orders[n] for n in (3, 3, 13, 700, 2000)]
    (tmp_path / "orders").mkdir()
    for name, rows in (("1", orders[:1200]), ("2", [*orders[1200:], *copied])):
        with (tmp_path / "orders" / f"{name}.csv").open("w", newline="") as out:
            csv.writer(out).writerows([names, *(row.values() for row in rows)])
    readings = [{"device_id": n % 5, "at": f"2024-01-01T00:{n // 60:02d}:{n % 60:02d}Z", "rate": n} for n in range(90)]
    readings[44]["rate"] = "off"
    (tmp_path / "readings.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*readings, readings[7]]))

    workspace = made(tmp_path, "dirty", str(tmp_path / "orders"), str(tmp_path / "readings.jsonl"))
    silver = workspace.definition.silver
    assert (silver["orders"].keys, silver["orders"].event_time) == (["order_id"], "ordered_at")
    assert silver["readings"].keys == ["device_id", "at"]
    reports = run(spark, workspace)

    quarantined = {order for order, (column, _) in bad.items() if column == "ordered_at"}
    kept = [row for row in orders if int(row["order_id"][1:]) not in quarantined]
    assert (reports["orders"].written, reports["orders"].quarantined) == (len(kept), len(quarantined))
    found = workspace.rows("orders_quarantine", "_record")
    assert {int(json.loads(record)["order_id"][1:]) for (record,) in found} == quarantined
    unread = {f"o{order}": {f"{column}_text": value} for order, (column, value) in bad.items()}
    assert sorted(workspace.rows("orders", *names, "quantity_text", "paid_text"), key=str) == sorted(
        (
            (r["order_id"], datetime.fromisoformat(r["ordered_at"]).replace(tzinfo=UTC), r["shop"],
             int(r["quantity"]) if r["quantity"].isdigit() else None, True if r["paid"] == "true" else None,
             unread.get(r["order_id"], {}).get("quantity_text"), unread.get(r["order_id"], {}).get("paid_text"))
            for r in kept
        ),
        key=str,
    )  # fmt: skip
    rules = reports["orders"].expectations
    assert {name: counts["failed"] for name, counts in rules.items() if name.endswith("_text")} == {
        "no_quantity_text": 4, "no_paid_text": 1,
    }  # fmt: skip  # the copy of a row with a bad value is one more
    assert [reason for (reason,) in workspace.rows("orders_set_aside", "reason")] == ["duplicate"] * len(copied)
    assert (reports["readings"].written, reports["readings"].quarantined, reports["readings"].duplicates) == (90, 0, 1)
    assert [text for text, rate in workspace.rows("readings", "rate_text", "rate") if rate is None] == ["off"]


def test_a_table_that_is_not_the_whole_file_reaches_gold(spark: SparkSession, tmp_path: Path) -> None:
    """Titles above the header, `sep=`, a zip archive, wrapped JSON: all records, and all files of the next day."""
    rows = [f"{n};2024-01-{n:02d};{n},5\n" for n in range(1, 29)]
    (tmp_path / "sums.csv").write_text("sep=;\nSums of January\n\nid;day;amount\n" + "".join(rows) + "\x1a")
    items = [{"id": n, "shop": f"s{n % 3}", "inner": {"a": [n]}} for n in range(12)]
    (tmp_path / "answer.json").write_text(json.dumps({"count": 12, "next": None, "data": items}, indent=2))
    with zipfile.ZipFile(tmp_path / "people.csv.zip", "w") as archive:
        archive.writestr("people.csv", "person_id,age\n" + "".join(f"{n},{n + 20}\n" for n in range(30)))

    workspace = made(tmp_path, "parts", *(str(tmp_path / n) for n in ("sums.csv", "answer.json", "people.csv.zip")))
    reports = run(spark, workspace)

    assert {name: reports[name].written for name in ("sums", "answer", "people")} == {
        "sums": 28, "answer": 12, "people": 30,
    }  # fmt: skip
    assert sorted(workspace.rows("sums", "id", "day", "amount")) == [
        (n, date(2024, 1, n), n + 0.5) for n in range(1, 29)
    ]
    assert sorted(workspace.rows("answer", "id", "shop")) == [(n, f"s{n % 3}") for n in range(12)]
    assert sorted(workspace.rows("people", "person_id", "age")) == [(n, n + 20) for n in range(30)]
    workspace.land("parts/sums/header_moved.csv", "id;day;amount\n90;2024-02-01;1\n91;2024-02-01;1\n92;2024-02-01;1\n")
    later = workspace.run(spark)
    assert [path.rpartition("/")[2] for path in later["sums_bronze"].failed] == ["header_moved.csv"]


PIECES = [
    "", "1", "09", "-", "+", ".", ",", "e", "d", "F", "T", " ", ":", "/", "x", "n", "y", "2024", "-13", "-01", "-30",
    "10:00", "25:00", "10:61", "UTC", "+02:00", "true", "NaN", "inf", "Infinity", "NA", "now", "epoch", "0x1p3", "1_0",
    "\u0663", "\t", "\xa0", "$", "€", "%", "1,000",
]  # fmt: skip
CASTS: list[tuple[Kind, str]] = [
    ("BIGINT", "CAST({} AS BIGINT)"),
    ("DOUBLE", "CAST({} AS DOUBLE)"),
    ("BOOLEAN", "CAST({} AS BOOLEAN)"),
    ("DATE", "CAST({} AS DATE)"),
    ("TIMESTAMP", "CAST({} AS TIMESTAMP)"),
    ("DECIMAL", "CAST({} AS DECIMAL(38, 2))"),
    ("DOUBLE", "CAST(replace({}, ',', '.') AS DOUBLE)"),
    ("TIMESTAMP", "CAST(CAST({} AS DECIMAL(20, 6)) AS TIMESTAMP)"),
    ("TIMESTAMP", "timestamp_millis(CAST({} AS BIGINT))"),
    *[(reading.kind, reading.pattern) for reading in written_numbers(commas=True)],
]


@pytest.mark.more
def test_what_spark_casts_is_known(spark: SparkSession) -> None:
    """A text that is held for a misfit, and that Spark casts to some value, would be another value in silver."""
    texts = sorted({"".join(some) for some in itertools.product(PIECES, repeat=3)})
    frame = spark.createDataFrame(pa.table({"t": texts}).to_pandas())
    with override_settings(spark, LENIENT):
        cast = [f"{pattern.replace('{}', 't')} IS NOT NULL AS c{n}" for n, (_, pattern) in enumerate(CASTS)]
        rows = frame.selectExpr("t", *cast).collect()
    assert len(rows) == len(texts)
    for number, (kind, pattern) in enumerate(CASTS):
        taken = [row[0] for row in rows if row[number + 1]]
        assert len(taken) > 100, pattern
        assert [text for text in taken if not is_cast(kind, pattern, text.strip())] == [], pattern
