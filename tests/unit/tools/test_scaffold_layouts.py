"""`sluicegate new` from files whose table is not the whole file: preambles, archives, wrapped JSON, bad cells."""

from __future__ import annotations

import io
import json
import lzma
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from sluicegate import definition
from sluicegate.definition import Pipeline
from sluicegate.errors import UserError
from sluicegate.settings import Settings
from sluicegate.tools.scaffold import json_wrapping
from sluicegate.tools.scaffold.create import create
from sluicegate.tools.scaffold.sniff import sniff
from sluicegate.tools.scaffold.table import NewTable

pytestmark = pytest.mark.unit


def new(folder: Path, name: str, content: str | bytes, header: bool | None = None) -> tuple[NewTable, Pipeline]:
    """The table made of a file, and the definition, which must load."""
    file = folder / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    settings = Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")
    created = create("mine", [str(file)], settings, land=False, header=header)
    return created.tables[0], definition.load("mine", settings)


def kinds(table: NewTable) -> dict[str, str]:
    return {column.name: column.inferred_type.kind for column in table.columns}


ROWS = "id,amount\n" + "".join(f"{n},{n}.5\n" for n in range(30))
SEMICOLONS = "id;amount\n" + "".join(f"{n};{n},5\n" for n in range(30))
WIDE = "a_id,b,c,d\n" + "".join(f"{n},{n},x{n},2024-01-{n:02d}\n" for n in range(1, 30))


@pytest.mark.parametrize(
    ("above", "table", "lines"),
    [
        ("Exported by Tool 3.1\n2024-03-01\n\n", ROWS, 3),
        ('"Sales, all of them"\n', ROWS, 1),
        ("Sales,\n,\n", ROWS, 2),
        ("sep=;\n", SEMICOLONS, 1),
        ('"sep=;"\nSales\n', SEMICOLONS, 2),
        ("Station,Berlin,,\nFrom,2024-01-01,,\n,,,\n", WIDE, 3),
        ("# by Tool\nSales\n", ROWS, 2),
    ],
)
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_lines_above_the_header_are_skipped(tmp_path: Path, above: str, table: str, lines: int, ending: str) -> None:
    made, pipeline = new(tmp_path, "t.csv", (above + table).replace("\n", ending))
    options = pipeline.bronze["t_bronze"].options
    assert (options["skipRows"], options["header"]) == (str(lines), "true")
    assert made.rows == table.count("\n") - 1
    assert kinds(made) in ({"id": "BIGINT", "amount": "DOUBLE"},
                           {"a_id": "BIGINT", "b": "BIGINT", "c": "STRING", "d": "DATE"})  # fmt: skip
    assert pipeline.silver["t"].keys == [made.columns[0].name]


@pytest.mark.parametrize(
    "content",
    [
        ROWS,
        "1,,,\n2,a,b,c\n3,d,e,f\n",
        "id,x\n1,2,3\n2,3,4\n",
        "# a\n" + ROWS,
        "\n\n" + ROWS,
        "only\na\nb\n",
        "Total\n1,2\n3,4\n",
    ],
)
def test_a_line_that_may_be_a_record_is_not_skipped(tmp_path: Path, content: str) -> None:
    _, pipeline = new(tmp_path, "t.csv", content)
    assert "skipRows" not in pipeline.bronze["t_bronze"].options


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_the_end_of_a_text_is_no_record(tmp_path: Path, ending: str) -> None:
    made, pipeline = new(tmp_path, "t.csv", (ROWS + "\x1a\n").replace("\n", ending))
    assert (made.rows, kinds(made)["id"]) == (30, "BIGINT")
    assert pipeline.bronze["t_bronze"].options["comment"] == "\x1a"


@pytest.mark.parametrize("content", [b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b"\x1a"])
def test_a_file_of_a_mark_alone_has_no_table(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(UserError):
        new(tmp_path, "t.csv", content)


def test_the_end_of_a_sample_is_not_the_end_of_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "id,amount\n1,2\n\x1a\n" + "3,4\n" * 9
    monkeypatch.setattr("sluicegate.tools.scaffold.sniff.BYTES", text.index("3,4") + 2)
    (tmp_path / "t.csv").write_text(text)
    assert "comment" not in sniff(tmp_path / "t.csv").options


def test_a_header_with_too_few_names_is_told(tmp_path: Path) -> None:
    made, _ = new(tmp_path, "t.csv", "id,x\n1,2,3\n2,3,4\n")
    assert any("2 names for 3 values" in remark for remark in made.samples[0].guessed)


def test_a_line_break_in_quotes_is_found_below_a_preamble(tmp_path: Path) -> None:
    text = "Sales\n" + ROWS + '30,"1\n.5"\n'
    made, pipeline = new(tmp_path, "t.csv", text)
    assert pipeline.bronze["t_bronze"].options["multiLine"] == "true"
    assert made.rows == 31


def packed(suffix: str, text: str) -> bytes:
    if suffix == ".xz":
        return lzma.compress(text.encode())
    if suffix == ".zst":
        return bytes(pa.compress(text.encode(), codec="zstd", asbytes=True))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("inner/data.csv", text)
    return out.getvalue()


@pytest.mark.parametrize("suffix", [".xz", ".zst", ".zip"])
@pytest.mark.parametrize("name", ["t.csv", "t"])
def test_a_packed_file_is_read(tmp_path: Path, suffix: str, name: str) -> None:
    made, pipeline = new(tmp_path, name + suffix, packed(suffix, ROWS))
    assert kinds(made) == {"id": "BIGINT", "amount": "DOUBLE"}
    assert (made.rows, pipeline.silver["t"].keys) == (30, ["id"])


@pytest.mark.parametrize("sampled", [100, 1 << 20])
def test_a_packed_file_with_more_behind_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampled: int
) -> None:
    monkeypatch.setattr("sluicegate.tools.scaffold.sniff.BYTES", sampled)
    rows = "".join(f"{n},{n}.5\n" for n in range(30, 9000))
    with pytest.raises(UserError):
        new(tmp_path, "t.csv.xz", packed(".xz", ROWS + rows) + b"\0" * 4 + packed(".xz", rows))


ITEMS = [{"id": n, "v": n / 2} for n in range(20)]


@pytest.mark.parametrize(
    ("around", "path"),
    [
        ({"meta": {"page": 1}, "results": ITEMS}, "results"),
        ({"response": {"count": 20, "docs": ITEMS}, "took": 3}, "response.docs"),
        ({"things": ITEMS}, "things"),
        ({"count": 20, "items": ITEMS, "tags": [{"a": 1}]}, "items"),
        ({"id": 7, "items": ITEMS}, None),
        ({"name": "Ann", "visits": ITEMS}, None),
        ({"a": {"b": {"c": {"data": ITEMS}}}}, None),
        ({"data": list(range(20))}, None),
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_records_inside_of_an_object_are_told(
    tmp_path: Path, around: object, path: str | None, indent: int | None
) -> None:
    made, pipeline = new(tmp_path, "t.json", json.dumps(around, indent=indent))
    assert pipeline.bronze["t_bronze"].records == path
    if path:
        assert (kinds(made), made.rows) == ({"id": "BIGINT", "v": "DOUBLE"}, 20)
    else:
        assert made.rows == 1


@pytest.mark.parametrize("name", ["t.jsonl", "t.NDJSON", "t.jsonl.xz"])
def test_the_only_line_of_a_file_of_lines_is_a_record(tmp_path: Path, name: str) -> None:
    line = json.dumps({"event": "x", "ts": 1, "data": ITEMS}) + "\n"
    content = packed(".xz", line) if name.endswith(".xz") else line
    made, pipeline = new(tmp_path, name, content)
    assert (made.rows, pipeline.bronze["t_bronze"].records) == (1, None)


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_records_are_found_in_DEEPEST_objects_at_most(tmp_path: Path, beyond: int) -> None:
    around: object = ITEMS
    for _ in range(json_wrapping.DEEPEST + beyond):
        around = {"data": around}
    _, pipeline = new(tmp_path, "t.json", json.dumps(around))
    assert (pipeline.bronze["t_bronze"].records is None) == (beyond == 1)


def test_records_are_found_in_a_file_that_is_longer_than_its_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate.tools.scaffold.sniff.BYTES", 200)
    made, pipeline = new(tmp_path, "t.json", json.dumps({"count": 1, "data": ITEMS}))
    assert (made.rows, pipeline.bronze["t_bronze"].records) == (20, "data")


@pytest.mark.parametrize(("late", "encoding"), [(b"caf\xe9", "windows-1252"), ("café".encode(), None), (b"\x81", None)])
def test_the_encoding_is_that_of_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bytes, encoding: str | None
) -> None:
    monkeypatch.setattr("sluicegate.tools.scaffold.sniff.BYTES", 50)
    file = tmp_path / "t.csv"
    file.write_bytes(ROWS.encode() + b"30," + late + b"\n")
    assert sniff(file).options.get("encoding") == encoding


PRICES = "id,price,paid,day,name\n" + "".join(
    f"{n},{'n.a. yet' if n == 9 else n / 4},$1.{n:02d},{'soon' if n == 3 else f'2/{n % 28 + 1}/2024'},x\n"
    for n in range(40)
)


def test_a_record_is_kept_without_a_value_that_does_not_fit(tmp_path: Path) -> None:
    made, pipeline = new(tmp_path, "t.csv", PRICES)
    silver = pipeline.silver["t"]
    assert silver.event_time == "day"
    conditions = {rule.expect for *_, rule in silver.rules}
    assert "price_text IS NULL" in conditions
    assert "day_text IS NULL" not in conditions  # a record without an event time is quarantined
    sql = (tmp_path / "pipelines/mine/t.sql").read_text()
    assert "IF(TRY_CAST(r.price AS DOUBLE) IS NULL, r.price, NULL) AS price_text," in sql
    assert "to_date(r.day" in sql
    assert "try_to_date" not in sql
    assert made.text_column(made.columns[1]) == "price_text"


def test_a_text_that_may_be_personal_is_in_pii(tmp_path: Path) -> None:
    text = PRICES.replace("price", "birthdate").replace("n.a. yet", "Ann").replace(",$1.05,", ",a@b.org,")
    _, pipeline = new(tmp_path, "t.csv", text)
    assert pipeline.silver["t"].pii == ["birthdate", "name", "birthdate_text", "paid_text"]


def test_every_text_that_does_not_fit_is_in_pii_for_only_the_first_is_looked_at(tmp_path: Path) -> None:
    _, pipeline = new(tmp_path, "t.csv", PRICES.replace("name", "note"))
    assert pipeline.silver["t"].pii == ["price_text"]


def test_a_record_of_one_column_is_kept_without_its_value(tmp_path: Path) -> None:
    _, pipeline = new(tmp_path, "t.csv", "amount\n" + "".join(f"{n}.5\n" for n in range(40)) + "none yet\n1.5\n")
    condition = pipeline.silver["t"].expectations["some_value"].condition
    assert condition == "amount IS NOT NULL OR amount_text IS NOT NULL"


def test_a_field_is_called_what_it_is_whatever_its_value_is_cast_by(tmp_path: Path) -> None:
    rows = "".join(f"{n},{n}.5,{n}.25\n" for n in range(40))
    new(tmp_path, "t.csv", "id,forecast_eur,FORECAST(EUR)\n" + rows + "40,1.5,none yet\n")
    sql = (tmp_path / "pipelines/mine/t.sql").read_text()
    assert sql.count("['FORECAST(EUR)']") == 3
    assert sql.count("TRY_CAST(") == 2


def test_the_column_of_a_text_has_a_name_of_its_own(tmp_path: Path) -> None:
    made, _ = new(tmp_path, "t.csv", PRICES.replace("name", "Price_Text"))
    assert made.text_column(made.columns[1]) == "price_text1"
