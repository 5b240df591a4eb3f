"""Bronze is compared with its landed files, record by record and value by value; what is damaged is named."""

from __future__ import annotations

import io
import json
import lzma
import math
import os
import random
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyarrow import parquet

from sluicegate.definition import BronzeTable
from sluicegate.flow.verification.finding import Finding
from sluicegate.flow.verification.sample import Sample
from sluicegate.witness import comparison, difference, landed_files, records, values
from sluicegate.witness.comparison import Comparison
from sluicegate.witness.json_text import Number, parse_json
from sluicegate.witness.records import Record
from sluicegate.witness.table_columns import BronzeColumns
from tests.conftest import Workspace
from tests.support.bronze_by_hand import TIME, ingested, rewritten

pytestmark = pytest.mark.unit

DEFINITION = """name: heart_rate
bronze:
  sales: {path: "${landing}/sales", format: csv, options: {header: true}, schemaHints: "n INT, price DECIMAL(10,2)"}
  lines: {path: "${landing}/lines", format: json}
  arrays: {path: "${landing}/arrays", format: json, options: {multiLine: true}}
  typed: {path: "${landing}/typed", format: parquet}
  texts: {path: "${landing}/texts", format: text}
"""
INT, TEXT = pa.int32(), pa.string()
SALES = {"id": TEXT, "n": INT, "price": pa.decimal128(10, 2), "note": TEXT}
LINES = {
    "id": pa.int64(), "x": pa.float64(), "ok": pa.bool_(), "day": pa.date32(), "at": TIME, "text": TEXT,
    "inner": pa.struct([("a", pa.int64()), ("b", pa.list_(TEXT))]),
}  # fmt: skip
ARRAYS = {"id": pa.int64(), "name": TEXT}
TYPED = {"id": pa.int64(), "at": TIME, "price": pa.decimal128(12, 3), "tags": pa.list_(TEXT)}
TABLES = {"sales": SALES, "lines": LINES, "arrays": ARRAYS, "typed": TYPED, "texts": {"value": TEXT}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A lake of bronze tables of all formats that are read a second time."""
    workspace = Workspace(tmp_path_factory.mktemp("witness"))
    workspace.define(DEFINITION)
    _sales(workspace)
    _lines(workspace)
    arrays = str(workspace.land("arrays/a.json", [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bo"}, {"id": 3}]))
    rows: list[dict[str, Any]] = [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bo"}, {"id": 3}]
    ingested(workspace, "arrays", ARRAYS, {arrays: rows})
    _typed(workspace)
    texts = str(workspace.land("texts/a.txt", "first\n\n  third\r\nlast"))
    values = [{"value": "first"}, {"value": ""}, {"value": "  third"}, {"value": "last"}]
    ingested(workspace, "texts", TABLES["texts"], {texts: values})
    return workspace


def _sales(workspace: Workspace) -> None:
    header = "id,n,price,note\n"
    one = str(workspace.land("sales/1.csv", header + '007,1,1.50,"a, ""b"""\n8,x,2,\n9,3\n'))
    two = str(workspace.land("sales/2.csv", "note,id,n,price,price\nz,10,-4,0.1,5\n"))
    ingested(workspace, "sales", SALES, {
        one: [
            {"id": "007", "n": 1, "price": Decimal("1.50"), "note": 'a, "b"'},
            {"id": "8", "price": Decimal(2), "_rescued_data": _rescued(one, n="x")},
            {"id": "9", "n": 3, "_corrupt_record": "9,3"},
        ],
        two: [{"id": "10", "n": -4, "price": Decimal("0.1"), "note": "z", "_rescued_data": _rescued(two, price_2="5")}],
    })  # fmt: skip


def _lines(workspace: Workspace) -> None:
    one = str(workspace.land("lines/1.json", "\n".join([
        '{"id": 1, "x": 1.5, "ok": true, "day": "2024-02-29", "at": "2024-05-01T12:00:00.5+02:00", "text": 1.10}',
        '{"id": "2", "inner": {"a": 1, "b": ["x", 2]}, "text": {"k": [1, 2.0]}}',
        '{"id": 2.5, "inner": {"a": "no", "c": true}}',
        "",
        '{"id": 4, "x": ',
        '{"ID": 5}',
    ])))  # fmt: skip
    ingested(workspace, "lines", LINES, {one: [
        {"id": 1, "x": 1.5, "ok": True, "day": date(2024, 2, 29), "text": "1.10",
         "at": datetime(2024, 5, 1, 10, 0, 0, 500_000, tzinfo=UTC)},
        {"id": 2, "inner": {"a": 1, "b": ["x", "2"]}, "text": '{"k":[1,2.0]}'},
        {"inner": {"a": None, "b": None}, "_rescued_data": _rescued(one, id="2.5", inner='{"a": "no", "c": true}')},
        {"_corrupt_record": '{"id": 4, "x": '},
        {"_rescued_data": _rescued(one, ID="5")},
    ]})  # fmt: skip


def _typed(workspace: Workspace) -> None:
    times = [datetime(1969, 12, 31, 23, 59, 59, 123_456, tzinfo=UTC), None, datetime(2024, 5, 1, tzinfo=UTC)]
    rows = [
        {"id": number, "at": at, "price": Decimal(f"{number}.125"), "tags": ["a", None] if number else None}
        for number, at in enumerate(times)
    ]
    path = workspace.folder / "landing/typed/a.parquet"
    path.parent.mkdir(parents=True)
    parquet.write_table(pa.Table.from_pylist(rows, pa.schema(list(TYPED.items()))), path)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    ingested(workspace, "typed", TYPED, {str(path): rows})


def _rescued(path: str, **values: Any) -> str:
    return json.dumps({**values, "_file_path": f"file://{path}"})


@pytest.fixture
def lake(made: Workspace, tmp_path: Path) -> Iterator[Workspace]:
    """A copy of that lake, in the place of the first, as files are known by their paths."""
    kept = tmp_path / "kept"
    shutil.copytree(made.folder, kept, symlinks=True)
    yield made
    shutil.rmtree(made.folder)
    shutil.copytree(kept, made.folder)


def told(workspace: Workspace, *tables: str) -> list[Finding]:
    return list(landed_files.findings(workspace.definition, workspace.settings, only=tables))


def test_an_undamaged_lake_is_verified_and_nothing_is_left_out(made: Workspace) -> None:
    found = told(made)
    assert [(one.kind, one.table) for one in found] == [("proved", name) for name in TABLES]
    assert [one.version for one in found] == [0] * len(TABLES)
    assert "4 records" in found[0].what
    assert "2 files" in found[0].what


@pytest.mark.parametrize("most", [0, landed_files.IN_MEMORY], ids=["on disk", "in memory"])
def test_a_sample_says_which_files_were_compared_and_how_many_were_not(
    lake: Workspace, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landed_files, "IN_MEMORY", most)
    one, two = (str(lake.folder / f"landing/sales/{number}.csv") for number in (1, 2))
    rows = DeltaTable(lake.uri("sales")).to_pyarrow_table().sort_by("_pos")
    prices = rows["price"].to_pylist()
    prices[0] = Decimal("7.25")
    changed = rows.set_column(rows.schema.get_field_index("price"), "price", pa.array(prices, pa.decimal128(10, 2)))
    rewritten(lake, "sales", changed)

    def of_sample(*chosen: str) -> list[tuple[str, str]]:
        monkeypatch.setattr(Sample, "has", lambda _, table, path: (table, path) in [("sales", one) for one in chosen])
        found = landed_files.findings(lake.definition, lake.settings, only=["sales"], sample=Sample(50))
        return [(finding.kind, finding.what) for finding in found]

    (kind, wrong), left_out = of_sample(one)
    assert (kind, one in wrong) == ("wrong", True)
    assert left_out == ("unseen", "the values of 1 of 2 files, as a sample of 50 % is compared")
    left_out, (kind, proved) = of_sample(two)
    assert left_out == ("unseen", "the values of 1 of 2 files, as a sample of 50 % is compared")
    assert kind == "proved"
    assert proved.startswith("each value of 1 records equals that of 1 of 2 files, read again by ")
    [(kind, nothing)] = of_sample()
    assert (kind, nothing) == ("unseen", "the values of 2 of 2 files, as a sample of 50 % is compared")
    assert [kind for kind, _ in of_sample(one, two)] == ["wrong"]


def test_rows_of_more_than_IN_MEMORY_are_sorted_outside_of_memory(
    made: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = told(made)
    for most in (0, 3, 4, 5):  # of tables with 3, 4 and 5 rows
        monkeypatch.setattr(landed_files, "IN_MEMORY", most)
        monkeypatch.setattr(landed_files, "BLOCK", most or 1)
        assert told(made) == few


def test_each_value_of_each_column_is_compared(lake: Workspace) -> None:
    for name, columns in TABLES.items():
        stored = DeltaTable(lake.uri(name)).to_pyarrow_table()
        for column in [*columns, "_rescued_data", "_corrupt_record", "_file_modification_time"]:
            for row in range(stored.num_rows):
                rewritten(lake, name, _with(stored, row, column, _another(stored[column][row].as_py(), column)))
                assert [one.kind for one in told(lake, name)] == ["wrong"], (name, column, row)
        rewritten(lake, name, stored)
    assert {one.kind for one in told(lake)} == {"proved"}


def _with(rows: pa.Table, row: int, column: str, value: Any) -> pa.Table:
    values = rows[column].to_pylist()
    values[row] = value
    changed = pa.array(values, rows.schema.field(column).type)
    return rows.set_column(rows.schema.get_field_index(column), column, changed)


def _another(value: Any, column: str) -> Any:
    """A value that differs in one small thing."""
    match value:
        case None:
            return {
                "n": 0,
                "price": Decimal(0),
                "x": 0.0,
                "ok": False,
                "day": date(1970, 1, 1),
                "id": 0,
                "at": datetime(1970, 1, 1, tzinfo=UTC),
                "inner": {"a": 0, "b": None},
                "tags": [],
            }.get(column, "x")
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value + 2**-50
        case Decimal():
            return value + Decimal("0.01")
        case datetime():
            return value.replace(microsecond=(value.microsecond + 1000) % 1_000_000)
        case date():
            return value.replace(year=value.year - 4)
        case dict():
            return {**value, "a": 77}
        case list():
            return [*value, "x"]
    return value.replace("1", "2") if "1" in value and column == "_rescued_data" else f"{value}!"


def test_rows_and_files_that_are_lost_doubled_or_changed_are_named(lake: Workspace) -> None:
    """Each damage is by chance, and is named with its table."""
    chance = random.Random(38)
    for number in range(12):
        kept = lake.folder.with_name(f"{lake.folder.name}-kept")
        shutil.copytree(lake.folder, kept)
        name = chance.choice(list(TABLES))
        damage = chance.choice([_row_lost, _row_doubled, _rows_exchanged, _file_shortened, _file_changed, _file_gone])
        if damage(lake, name, chance):
            found = told(lake, name)
            assert {one.kind for one in found} & {"wrong", "unseen"}, (number, name, damage.__name__, found)
        shutil.rmtree(lake.folder)
        kept.rename(lake.folder)


Damage = Callable[[Workspace, str, random.Random], bool]


def _row_lost(lake: Workspace, name: str, chance: random.Random) -> bool:
    rows = DeltaTable(lake.uri(name)).to_pyarrow_table()
    gone = chance.randrange(rows.num_rows)
    rewritten(lake, name, rows.take([row for row in range(rows.num_rows) if row != gone]))
    return True


def _row_doubled(lake: Workspace, name: str, chance: random.Random) -> bool:
    rows = DeltaTable(lake.uri(name)).to_pyarrow_table()
    rewritten(lake, name, pa.concat_tables([rows, rows.slice(chance.randrange(rows.num_rows), 1)]))
    return True


def _rows_exchanged(lake: Workspace, name: str, chance: random.Random) -> bool:
    """One record in the place of another: as many rows as before."""
    rows = DeltaTable(lake.uri(name)).to_pyarrow_table()
    one, other = chance.sample(range(rows.num_rows), 2)
    order = list(range(rows.num_rows))
    order[one] = other
    taken = rows.take(order)
    for column in ("_pos", "source_file"):
        taken = taken.set_column(taken.schema.get_field_index(column), column, rows[column])
    rewritten(lake, name, taken)
    return True


def _files(lake: Workspace, name: str) -> list[Path]:
    return sorted((lake.folder / "landing" / name).iterdir())


def _file_shortened(lake: Workspace, name: str, chance: random.Random) -> bool:
    path = chance.choice(_files(lake, name))
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])
    return True


def _file_changed(lake: Workspace, name: str, chance: random.Random) -> bool:
    """One byte of a value, and the time and size of before: only its content tells."""
    path = chance.choice(_files(lake, name))
    about, data = path.stat(), bytearray(path.read_bytes())
    digits = [place for place, byte in enumerate(data) if 49 <= byte <= 56]
    if name == "typed" or not digits:  # a byte of Parquet may be one that no reader looks at
        return False
    data[chance.choice(digits)] += 1
    path.write_bytes(data)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    return True


def _file_gone(lake: Workspace, name: str, chance: random.Random) -> bool:
    chance.choice(_files(lake, name)).unlink()
    return True


def test_a_record_that_is_missing_or_too_many_is_told_apart_from_those_behind_it(lake: Workspace) -> None:
    stored = DeltaTable(lake.uri("texts")).to_pyarrow_table()
    rewritten(lake, "texts", stored.slice(1))
    assert "no row matches its record 1" in str(told(lake, "texts"))
    rewritten(lake, "texts", pa.concat_tables([stored.slice(2, 1), stored]))
    assert "1 row matches no record" in str(told(lake, "texts"))


def test_up_to_AHEAD_missing_records_are_told_apart_from_changed_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where more rows than HELD are read behind the last one, none is left out."""
    monkeypatch.setattr(comparison, "AHEAD", 4)
    monkeypatch.setattr(comparison, "HELD", 2)
    columns = BronzeColumns({"value": TEXT})

    def compared(landed: range, stored: list[int]) -> tuple[int, int, int]:
        records = iter([Record({"value": str(number)}) for number in landed])
        rows = [(str(number), None, None) for number in stored]
        found = Comparison(columns, "a.txt", csv=False).run(records, [rows] if rows else [])
        return found.missing, found.added, found.changed

    every = list(range(20))
    for gone, told_apart in ((2, True), (3, True), (4, False)):
        missing, added, changed = compared(range(20), every[:5] + every[5 + gone :])
        assert (missing - added, changed == 0) == (gone, told_apart)
    assert compared(range(5), [*range(5), 7, 8, 9]) == (0, 3, 0)
    assert compared(range(20), []) == (20, 0, 0)
    assert compared(range(20), every[:3]) == (17, 0, 0)


@pytest.mark.parametrize("place", [0, 1, 3])
def test_a_record_that_cannot_be_decoded_may_have_its_row_anywhere(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    """But only such a record, and up to UNMATCHED of those without a row beside them."""
    monkeypatch.setattr(comparison, "UNMATCHED", 2)
    lines = [Record({"value": name}) for name in "abc"]

    def compared(broken: bool, rows: list[str | None], surplus: int = 0) -> tuple[int, int]:
        landed = [*lines[:place], Record({"value": "\udcfc"}, "\udcfc", broken), *lines[place:]]
        stored = [*((name, None, None) for name in rows), *[(None, None, "\\xfc")] * (1 + surplus)]
        found = Comparison(BronzeColumns({"value": TEXT}), "a.txt", csv=False).run(iter(landed), [stored])
        return found.missing, found.added

    assert compared(True, [*"abc"]) == (0, 0)
    assert compared(True, [*"abc"], surplus=1) == (0, 1)
    assert compared(True, [*"abc"], surplus=4) == (0, 4)
    if place < 3:
        assert compared(False, [*"abc"])[0] == 1


@pytest.mark.parametrize("most", [2, 1_000])
@pytest.mark.parametrize("count", [1, 3, 50])
def test_rows_of_records_that_cannot_be_decoded_may_follow_those_of_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, count: int
) -> None:
    """More than one in turn, some of them no JSON, and more than are kept."""
    monkeypatch.setattr(comparison, "UNMATCHED", most)
    monkeypatch.setattr(comparison, "HELD", 7)
    bad = [b'\xff {"x":', b'{"x": "\xff"}', b'{"x": "\\ud800"}', b"\xff"]
    lines = [line for number in range(count) for line in (*bad, b'{"x": "%d"}' % number)]
    (tmp_path / "a.json").write_bytes(b"\n".join(lines))
    sound: list[tuple[str | None, ...]] = [(str(number), None, None) for number in range(count)]
    corrupt = [(None, None, line.decode(errors="replace")) for _ in range(count) for line in bad]

    def told(rows: list[tuple[str | None, ...]]) -> tuple[int, int, int]:
        files = records.FileReader(BronzeTable.model_validate({"path": str(tmp_path), "format": "json"}))
        blocks = [rows[place : place + 5] for place in range(0, len(rows), 5)]
        found = Comparison(BronzeColumns({"x": TEXT}), "/a.json", csv=False).run(
            files.records(str(tmp_path / "a.json")), blocks
        )
        return found.missing, found.added, found.changed

    assert told([*sound, *corrupt]) == (0, 0, 0)
    assert told([*sound, *corrupt[1:]])[0] >= 1
    assert told([*sound, *corrupt, (None, None, "more")])[1] == 1
    assert any(told([*sound[1:], *corrupt]))
    assert any(told([("x", None, None), *sound[1:], *corrupt]))


def test_of_a_field_that_a_record_has_twice_nothing_is_said() -> None:
    twice = '{"id": 1, "id": 2}'
    record = Record(parse_json(twice), twice)
    found = Comparison(BronzeColumns({"id": pa.int64()}), "a.json", csv=False).run(iter([record]), [[(1, None, None)]])
    assert (found.has_differences, sum(found.unsaid.values()) > 0) == (False, True)


def test_what_no_second_reader_reads_is_named_with_the_reason(lake: Workspace) -> None:
    lake.define(DEFINITION.replace("header: true}", 'header: true, emptyValue: "-"}'))
    found = {one.table: one for one in told(lake)}
    assert (found["sales"].kind, "emptyValue" in found["sales"].what) == ("unseen", True)


def test_values_that_cannot_be_told_are_no_part_of_what_is_proved(lake: Workspace) -> None:
    [path] = _files(lake, "texts")
    about = path.stat()
    path.write_bytes(path.read_bytes().replace(b"third", b"th\xffrd"))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    (wrong,) = told(lake, "texts")
    assert wrong.kind == "wrong"
    stored = DeltaTable(lake.uri("texts")).to_pyarrow_table()
    row = stored["value"].to_pylist().index("  third")
    rewritten(lake, "texts", _with(stored, row, "value", "  th\ufffdrd"))
    unseen, proved = told(lake, "texts")
    assert (unseen.kind, proved.kind) == ("unseen", "proved")
    assert "except the times of receipt and of files, and 1 value that is not compared" in proved.what


def test_values_of_pipelines_with_personal_data_are_not_shown(lake: Workspace) -> None:
    stored = DeltaTable(lake.uri("arrays")).to_pyarrow_table()
    rewritten(lake, "arrays", _with(stored, 0, "name", "Grace"))
    assert "Grace" in str(told(lake))
    lake.define(f"{DEFINITION}silver:\n  s: {{sql: SELECT * FROM STREAM(arrays), pii: [name]}}\n")
    assert not any(name in str(told(lake)) for name in ("Grace", "Ada"))


def compared(columns: BronzeColumns, fields: dict[str, Any], *row: Any) -> difference.Difference:
    """What the comparison of a file of one record comes to."""
    return Comparison(columns, "/a.json", csv=False).run(iter([Record(fields)]), [[row]])


def test_a_FLOAT_that_was_rescued_is_shown_with_its_own_digits() -> None:
    landed = struct.unpack("f", struct.pack("f", 0.1))[0]  # 0.10000000149011612, as pyarrow has it
    for shown, differs in (("0.1", False), ("0.2", True)):
        rescued = f'{{"x": {shown}, "_file_path": "file:///a.json"}}'
        assert compared(BronzeColumns({"x": INT}), {"x": landed}, None, rescued, None).has_differences is differs
        assert compared(BronzeColumns({"x": TEXT}), {"x": landed}, shown, None, None).has_differences is differs


@pytest.mark.parametrize(
    ("landed", "stored", "differs"),
    [
        ("0.1", 0.1, False), ("1e22", 1e22, False), ("1.7976931348623157e308", 1.7976931348623157e308, False),
        ("0.12345678901234567", 0.12345678901234567, False), ("0.123456789012345678", 0.123456789012345678, True),
        ("9007199254740992", 2.0**53, False), ("9007199254740993", 2.0**53, True), (2**53 + 1, 2.0**53, True),
        ("9007199254740991", 2.0**53 - 1, False), (2**53 - 1, 2.0**53 - 1, False), ("1e400", math.inf, True),
        ("1e-400", 0.0, True), ("0.000", 0.0, False), ("Infinity", math.inf, False), ("NaN", math.nan, False),
        ("12345678901234567000", 12345678901234567000.0, False), (Decimal("1.5"), 1.5, False), (0.1, 0.1, False),
    ],
)  # fmt: skip
def test_a_DOUBLE_is_the_number_that_landed_and_not_the_nearest_one(landed: Any, stored: float, differs: bool) -> None:
    """Numbers from SKIPS_FROM on, and of more than PRINTED_DIGITS digits, may be rounded: these are to be rescued."""
    column = BronzeColumns({"x": pa.float64()})
    assert compared(column, {"x": landed}, stored, None, None).has_differences is differs
    if isinstance(landed, str):
        assert compared(column, {"x": Number(landed)}, stored, None, None).has_differences is differs


def test_a_day_that_no_month_has_is_no_day_of_the_next_month() -> None:
    column = BronzeColumns({"x": pa.int32()})
    column.comparers["x"] = values.comparer(pa.date32())
    for day, number, told_apart in (("2024-02-29", 19782, True), ("2024-02-30", 19783, False)):
        found = compared(column, {"x": day}, number, None, None)
        assert (found.has_differences, found.unsaid["x"]) == (False, int(not told_apart))


@pytest.mark.parametrize("empty", [[], [[]], [None]])
def test_an_array_that_became_NULL_differs(empty: list[Any]) -> None:
    """The engine has an empty array in its column, or as text in the rescued data."""
    column = BronzeColumns({"x": pa.list_(pa.list_(pa.int32()))})
    assert compared(column, {"x": empty}, empty, None, None).has_differences is False
    assert compared(column, {"x": empty}, None, None, None).has_differences is True
    rescued = json.dumps({"x": json.dumps(empty), "_file_path": "file:/a.json"})
    assert compared(column, {"x": empty}, None, rescued, None).has_differences is False


def test_of_a_VARIANT_nothing_is_said() -> None:
    """JSON's null is a value of it, and an absent field is NULL."""
    column = BronzeColumns({"x": pa.null()})
    for landed, stored in ((None, {"value": b"\0"}), ([], {"value": b"\3\0\0"})):
        found = compared(column, {"x": landed}, stored, None, None)
        assert (found.has_differences, found.unsaid["x"]) == (False, 1)
    assert compared(column, {}, None, None, None).has_differences is False


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-8"])
def test_text_is_read_in_the_byte_order_that_it_has(tmp_path: Path, codec: str, mark: str) -> None:
    """With the option encoding, which says no byte order, and JSON without it, as the engine reads both."""
    text = '{"a": "é漢😀"}\n{"a": "x"}\n'
    (tmp_path / "a.json").write_bytes(f"{mark}{text}".encode(codec))
    for options in ({}, {"encoding": codec[:6]}) if codec != "utf-8" else ({},):
        table = BronzeTable.model_validate({"path": str(tmp_path), "format": "json", "options": options})
        found = list(records.FileReader(table).records(str(tmp_path / "a.json")))
        assert [one.fields for one in found] == [{"a": "é漢😀"}, {"a": "x"}]
        assert not any(one.broken for one in found)


def test_a_byte_order_that_nothing_tells_is_not_guessed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("漢表".encode("utf-16-le"))
    table = BronzeTable.model_validate({"path": "/a", "format": "csv", "options": {"encoding": "UTF-16"}})
    with pytest.raises(records.Unreadable, match="byte order"):
        list(records.FileReader(table).records(str(tmp_path / "a.csv")))


def test_an_empty_text_is_neither_rescued_data_nor_a_corrupt_record() -> None:
    for sides in (("", None), (None, "")):
        assert compared(BronzeColumns({"x": TEXT}), {"x": "a"}, "a", *sides).has_differences


def test_a_value_that_is_not_there_is_not_proved_where_nothing_is_rescued() -> None:
    found = compared(BronzeColumns({"x": INT}, rescues=False), {"x": Number("7")}, None, None, None)
    assert (found.has_differences, found.unsaid["x"]) == (False, 1)


@pytest.mark.parametrize(
    ("pattern", "reads"),
    [
        ("yyyy-MM-dd", True), ("yyyy-M-d'T'HH:mm", True), ("dd/MM/yy", True), ("dd-MM-yyyy", True),
        ("yyyy-dd-MM", False), ("dd-MM-yy", False), ("yy-MM-dd", False), ("yyyy-mm-dd", False),
    ],
)  # fmt: skip
def test_times_that_would_be_taken_for_others_are_not_looked_at(pattern: str, reads: bool) -> None:
    table = BronzeTable.model_validate({"path": "/a", "format": "csv", "options": {"timestampFormat": pattern}})
    assert (records.obstacle(table) == "") is reads


def _csv(tmp_path: Path, text: str, **options: Any) -> tuple[records.FileReader, list[Record]]:
    (tmp_path / "a.csv").write_text(text)
    facts = {"path": str(tmp_path), "format": "csv", "options": {"header": True, "sep": "\t", **options}}
    files = records.FileReader(BronzeTable.model_validate(facts))
    return files, list(files.records(str(tmp_path / "a.csv")))


def test_a_line_of_separators_that_are_blanks_is_no_record(tmp_path: Path) -> None:
    """Spark trims lines before it asks whether they are empty."""
    assert [record.fields for record in _csv(tmp_path, "a\tb\n\t\n1\t2\n")[1]] == [{"a": "1", "b": "2"}]
    with pytest.raises(records.Unreadable):  # with multiLine it does not
        _csv(tmp_path, "a\tb\n\t\n1\t2\n", multiLine=True)


def test_only_files_that_are_read_line_by_line_can_be_cut_in_two_ways(tmp_path: Path) -> None:
    assert _csv(tmp_path, 'a\tb\n1\t"x\ny"\n')[0].wrapped
    assert not _csv(tmp_path, 'a\tb\n1\t"x\ny"\n', multiLine=True)[0].wrapped


@pytest.mark.parametrize("text", ['[{"x": 1}, null]', "[1, 2]", '[{"x": 1}, [{"x": 2}]]'])
@pytest.mark.parametrize("several", [True, False])
def test_an_array_with_elements_that_are_no_objects_is_not_looked_at(tmp_path: Path, text: str, several: bool) -> None:
    """The engine keeps it as one corrupt record, or by element, as the other lines of its file demand."""
    (tmp_path / "a.json").write_text(f"{text}\n")
    table = BronzeTable.model_validate({"path": "/a", "format": "json", "options": {"multiLine": several}})
    with pytest.raises(records.Unreadable, match="elements that are not objects"):
        list(records.FileReader(table).records(str(tmp_path / "a.json")))


def test_a_line_with_an_escaped_half_of_a_surrogate_pair_is_broken(tmp_path: Path) -> None:
    lines = [r'{"x": "\ud83d\ude00"}', r'{"x": "\ud83d"}', r'{"x": "\\ud83d"}', '{"x": "é"}']
    (tmp_path / "a.json").write_text("\n".join(lines))
    landed = records.FileReader(BronzeTable.model_validate({"path": "/a", "format": "json"})).records(
        str(tmp_path / "a.json")
    )
    assert [record.broken for record in landed] == [False, True, False, False]


def test_a_file_of_another_size_at_the_same_time_is_damaged_and_one_of_another_time_was_written_over(
    lake: Workspace,
) -> None:
    path = lake.folder / "landing/typed/a.parquet"
    about = path.stat()
    path.write_bytes(path.read_bytes() + b"PAR1")
    [written_over] = told(lake, "typed")
    assert (written_over.kind, "changed since" in written_over.what) == ("unseen", True)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    [damaged] = told(lake, "typed")
    assert (damaged.kind, damaged.what) == (
        "wrong",
        f"{path}: it has {about.st_size + 4:,} bytes, but had {about.st_size:,} when it was read, with the same"
        " modification time",
    )


def test_times_are_compared_of_files_that_are_gone_too(lake: Workspace) -> None:
    (lake.folder / "landing/typed/a.parquet").unlink()
    rows = DeltaTable(lake.uri("typed")).to_pyarrow_table()
    times = pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * rows.num_rows, TIME)
    column = rows.schema.get_field_index("_file_modification_time")
    rewritten(lake, "typed", rows.set_column(column, "_file_modification_time", times))
    assert {one.kind for one in told(lake, "typed")} == {"wrong", "unseen"}


def test_of_a_time_in_a_zone_that_Java_alone_knows_nothing_is_said() -> None:
    for zone, unsaid in (("PST", 1), ("Europe", 1), ("UTC", 0)):
        found = compared(BronzeColumns({"at": TIME}), {"at": f"1970-01-01 00:00:00 {zone}"}, 0, None, None)
        assert (found.has_differences, found.unsaid["at"]) == (False, unsaid)


@pytest.mark.parametrize("levels", [100, 400, 900])
def test_of_records_of_too_many_levels_nothing_is_said(levels: int) -> None:
    text = "[" * levels + "1" + "]" * levels
    found = compared(BronzeColumns({"x": TEXT}), {"x": parse_json(text)}, text, None, None)
    assert (found.has_differences, sum(found.unsaid.values())) == (False, int(levels > 100))
    rescued = json.dumps({"y": text, "_file_path": "file:///a.json"})
    found = compared(BronzeColumns({"x": TEXT}), {"y": parse_json(text)}, None, rescued, None)
    assert (found.has_differences, sum(found.unsaid.values())) == (False, int(levels > 100))


@pytest.mark.parametrize("landed", ["x", 2, ["x"]])
def test_a_field_may_be_called_as_the_path_in_the_rescued_data(landed: Any) -> None:
    path, own = json.dumps("file:///a.json"), json.dumps(landed)
    fields = parse_json(f'{{"_file_path": {own}, "b": 1}}')
    columns = BronzeColumns({"_file_path": pa.date32(), "b": INT})
    for shown, differs in ((own, False), ('"another"', True)):
        rescued = f'{{"_file_path": {shown}, "_file_path": {path}}}'
        assert compared(columns, fields, None, 1, rescued, None).has_differences is differs
    assert compared(columns, fields, None, 1, f'{{"_file_path": {path}}}', None).has_differences


def _packed_lines(tmp_path: Path, suffix: str, packed: bytes | bytearray) -> list[Any]:
    (tmp_path / f"a.json{suffix}").write_bytes(packed)
    files = records.FileReader(BronzeTable.model_validate({"path": "/a", "format": "json"}))
    return [record.fields for record in files.records(str(tmp_path / f"a.json{suffix}"))]


def test_an_xz_file_is_read_to_its_end_or_not_at_all(tmp_path: Path) -> None:
    first, second = (lzma.compress(b'{"x": %d}\n' % n) for n in (1, 2))
    assert _packed_lines(tmp_path, ".xz", first + second) == [{"x": Number("1")}, {"x": Number("2")}]
    for between in (b"\0" * 4, b"x", b"\xfd7zXZ\1"):
        with pytest.raises(records.Unreadable):
            _packed_lines(tmp_path, ".xz", first + between + second)


def test_an_archive_has_one_file_and_what_programs_put_beside_it(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", b'{"x": 1}\n' * 99)
        archive.writestr("__MACOSX/._a.json", b"\0")
        archive.writestr("x/.DS_Store", b"\0")
    packed = bytearray(out.getvalue())
    assert len(_packed_lines(tmp_path, ".zip", packed)) == 99
    packed[40:44] = b"\xff\xff\xff\xff"  # no stream of zlib
    with pytest.raises(records.Unreadable):
        _packed_lines(tmp_path, ".zip", packed)
    packed[6] = packed[packed.index(b"PK\1\2") + 8] = 1  # flag of a password
    with pytest.raises(records.Unreadable):
        _packed_lines(tmp_path, ".zip", packed)
