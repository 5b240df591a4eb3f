"""`sluicegate new`: what it sees in files, what it writes, and what it refuses."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import string
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet
from typer.testing import CliRunner

from sluicegate import definition
from sluicegate.cli.app import app
from sluicegate.console import program
from sluicegate.errors import DefinitionError, SourceError, UserError
from sluicegate.settings import Settings
from sluicegate.tools.scaffold import create as scaffold_create
from sluicegate.tools.scaffold import group_files, infer_types, naming, near_misses, nearly, sniff, suggest
from sluicegate.tools.scaffold.create import NewPipeline, create
from sluicegate.tools.scaffold.infer_types import InferredType
from sluicegate.tools.scaffold.table import inner_numbers

pytestmark = pytest.mark.unit

ORDERS = "order_id,ordered_at,email,region,quantity\n" + "".join(
    f"{n},2024-01-{n % 28 + 1:02d} 10:00:00,a{n}@b.org,r{n % 3},{n % 7}\n" for n in range(40)
)


def at(folder: Path) -> Settings:
    return Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")


def write(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def new(folder: Path, *sources: str, name: str = "mine", land: bool = False, header: bool | None = None) -> NewPipeline:
    """Makes a pipeline, which must load."""
    made = create(name, sources, at(folder), land, header)
    definition.load(name, at(folder))
    return made


def columns(made: NewPipeline, table: int = 0) -> dict[str, str]:
    """Kind of each column of a table."""
    return {column.name: column.inferred_type.kind for column in made.tables[table].columns}


def no_trace(folder: Path) -> bool:
    """Whether neither a definition nor a file has been left behind."""
    left = [path for place in ("pipelines", "landing") for path in (folder / place).rglob("*") if path.is_file()]
    return not left and not [path for path in (folder / "pipelines").glob("*")]


def inferred(folder: Path, values: list[Any], name: str = "x") -> InferredType:
    """Type of a column of a file of JSON lines."""
    text = "".join(json.dumps({"k": 0, name: value}) + "\n" for value in values)
    made = new(folder, write(folder, "t.jsonl", text))
    return next(column.inferred_type for column in made.tables[0].columns if column.field == name)


# --- what is seen ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-20", "0"], "BIGINT"),
        (["1", "2.5", "-3e4"], "DOUBLE"),
        (["01", "10"], "STRING"),
        (["1234567890123456789012"], "DECIMAL"),
        (["0.12345678901234567"], "DECIMAL"),
        (["123456789012345678.25"], "DECIMAL"),
        (["0.14285714285714285", "1.2345678901234568e-15", "5e-324", "1.7976931348623157e+308"], "DOUBLE"),
        (["0.10000000000000001", "45.614405929400149"], "DOUBLE"),
        (["1", "1e400"], "STRING"),
        (["1" * 39], "STRING"),
        (["true", "FALSE"], "BOOLEAN"),
        (["2024-02-29", "2023-01-31"], "DATE"),
        (["2023-02-29"], "STRING"),
        (["2024-02-29", "2024-02-29T10:00:00Z"], "TIMESTAMP"),
        (["2024-02-29 10:00:00.123456+02:00"], "TIMESTAMP"),
        (["31.12.2024"], "DATE"),
        (["1.2345678901234567e-15", "0.5"], "DOUBLE"),
        (["9223372036854775807"], "BIGINT"),
        (["9223372036854775808"], "DECIMAL"),
        (["7", "\\N"], "BIGINT"),
        (["7", "  "], "BIGINT"),
        (["yes", "No"], "BOOLEAN"),
        (["Y", "N"], "BOOLEAN"),
        (["Y", "Y"], "STRING"),
        (["no", "no"], "STRING"),
        (["$1,234.50", "-$7"], "DOUBLE"),
        (["5 €", "1,200.75 €"], "DOUBLE"),
        (["$5", "5 €"], "STRING"),
        (["$12345678901234567.89", "$1.00"], "STRING"),  # a DOUBLE would lose digits
        (["12345678901234567,89", "1,5"], "STRING"),
        (["1,234,567,890,123,456.78", "2.5"], "STRING"),
        (["1.234.567.890.123.456,78", "2,5"], "STRING"),
        (["1,234,567,890,123.45", "2.5"], "DOUBLE"),
        (["1.234.567", "0012"], "STRING"),
        (["$1,000", "$007"], "STRING"),
        (["3%", "012%"], "STRING"),
        (["1.234", "2.500", "12.000"], "STRING"),  # thousands, or a fraction?
        (["1.234", "999", "-12.000"], "STRING"),
        (["1.234", "0.500"], "DOUBLE"),
        (["1.234", "2500"], "DOUBLE"),
        (["1.234 €", "12.500 €"], "STRING"),
        (["1.234 €", "12.5 €"], "DOUBLE"),
        (["1.234 %", "2.500 %"], "STRING"),
        (["12E4", "1E5"], "STRING"),  # codes, or numbers?
        (["3%", "12.5 %"], "DOUBLE"),
        (["1,234,567", "12"], "BIGINT"),
        (["1,234,567", "0.5"], "DOUBLE"),
        (["1.234,50", "7"], "DOUBLE"),
        (["1,5", "2,25"], "DOUBLE"),
        (["1,500", "2,250"], "STRING"),
        (["1", "x"], "STRING"),
        (["1", "NA"], "BIGINT"),
        (["1", "NA", "-", "?"], "STRING"),
        ([None, None], "STRING"),
        ([{"a": 1}], "NESTED"),
        ([[1], {"a": 1}], "STRING"),
        ([True, None], "BOOLEAN"),
    ],
)
def test_the_type_of_a_column_is_the_narrowest_that_all_values_have(
    tmp_path: Path, values: list[Any], kind: str
) -> None:
    assert inferred(tmp_path, values).kind == kind


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("time", "1710000000", "TIMESTAMP"),
        ("createdAt", "1710000000123", "TIMESTAMP"),
        ("updated_ts", "1710000000.25", "TIMESTAMP"),
        ("amount", "1710000000", "BIGINT"),
        ("time", "12", "BIGINT"),
        ("zip", "12345", "STRING"),
        ("phone_number", "4912345", "STRING"),
        ("ZIP5", "12345", "STRING"),
        ("postalcode", "12345", "STRING"),
        ("contact_number", "4912345", "STRING"),
        ("contact_id", "4912345", "BIGINT"),
        ("country", "NO", "STRING"),
        ("start_time_ms", "1710000000123", "TIMESTAMP"),
        ("updated_ts", "1710000000.123456", "TIMESTAMP"),
        ("updated_ts", "1710000000.1234567", "DOUBLE"),
        ("sales_to_date", "1710000000", "BIGINT"),
        ("bytes_per_day", "1710000000", "BIGINT"),
        ("duration_ms_at", "1710000000123", "BIGINT"),
        ("day_id", "20240301", "BIGINT"),
        ("release", "10.4.13", "STRING"),
        ("version", "1.10", "STRING"),
        ("version", "2", "BIGINT"),
        ("ip3", "1.4.13", "STRING"),
        ("release_date", "1.4.13", "DATE"),
    ],
)
def test_a_name_tells_what_a_number_is(tmp_path: Path, name: str, value: str, kind: str) -> None:
    assert inferred(tmp_path, [value], name).kind == kind


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("middle_initial", ["T", "F"], "STRING"),
        ("axis", ["N", "Y"], "STRING"),
        ("countryIsActive", ["N", "Y"], "BOOLEAN"),
    ],
)
def test_a_name_tells_what_a_word_is(tmp_path: Path, name: str, values: list[str], kind: str) -> None:
    assert inferred(tmp_path, values, name).kind == kind


@pytest.mark.parametrize(
    ("text", "kind", "is_guess"),
    [
        ("n;x\n1;1.234\n2;12.000\n", "STRING", False),
        ("n;x\n1;1.234 €\n2;12.000 €\n", "STRING", False),
        ("n,x\n1,1.234\n2,12.000\n", "DOUBLE", False),
        ("n,x\n1,12E4\n2,1.5\n", "DOUBLE", True),
        ("n,x\n1,1e-5\n2,1.5E+3\n", "DOUBLE", False),
        ("n,sku\n1,12E4\n2,1E5\n", "STRING", False),
    ],
)
def test_points_of_thousands_and_codes_with_an_E_stay_text(
    tmp_path: Path, text: str, kind: str, is_guess: bool
) -> None:
    [_, column] = new(tmp_path, write(tmp_path, "t.csv", text), header=True).tables[0].columns
    assert (column.inferred_type.kind, column.inferred_type.is_guess) == (kind, is_guess)
    assert ("thousands, or a fraction?" in column.inferred_type.remark) is (";" in text)


def test_numbers_of_json_have_points_of_fractions(tmp_path: Path) -> None:
    found = inferred(tmp_path, [20.125, 21.25])
    assert (found.kind, inferred(tmp_path / "b", [20.125, 21.375]).kind) == ("DOUBLE", "DOUBLE")


@pytest.mark.parametrize(
    ("values", "kind", "pattern"),
    [
        (["12/31/2024", "1/2/2024"], "DATE", "to_date({}, 'M/d/yyyy')"),
        (["31/12/2024", "1/2/2024"], "DATE", "to_date({}, 'd/M/yyyy')"),
        (["1-13-2016", "1-1-2016"], "DATE", "to_date({}, 'M-d-yyyy')"),
        (["3-Nov-23", "14-feb-24"], "DATE", "to_date({}, 'd-MMM-yy')"),
        (["March 3, 2024"], "DATE", "to_date({}, 'MMMM d, yyyy')"),
        (["2024/03/01"], "DATE", "to_date({}, 'yyyy/M/d')"),
        (["12/31/2024 01:02:03 PM"], "TIMESTAMP", "to_timestamp({}, 'M/d/yyyy h:mm:ss a')"),
        (["31.12.2024 23:59"], "TIMESTAMP", "to_timestamp({}, 'd.M.yyyy H:mm')"),
        (["1/2/2024", "3/4/2024"], "STRING", "{}"),  # which is the month?
        (["12/31/2024", "31/12/2024"], "STRING", "{}"),
        (["12/31/2024", "2/30/2024"], "STRING", "{}"),
        (["12/31/99", "1/2/01"], "STRING", "{}"),  # Spark would take it for 2099
        (["24-03-01", "24-04-15"], "STRING", "{}"),  # which is the year?
        (["24/03/01", "24/04/15"], "STRING", "{}"),
        (["24.03.01", "24.04.15"], "STRING", "{}"),
        (["24-03-01", "24-04-30"], "DATE", "to_date({}, 'yy-M-d')"),
        (["24/03/01 10:00", "24/04/30 11:00"], "TIMESTAMP", "to_timestamp({}, 'yy/M/d H:mm')"),
        (["01.03.24", "30.04.24"], "DATE", "to_date({}, 'd.M.yy')"),
        (["2024-03-01 10:30"], "TIMESTAMP", "CAST({} AS TIMESTAMP)"),
        (["2024-03-01 10:30:00+18:00"], "TIMESTAMP", "CAST({} AS TIMESTAMP)"),
        # Spark casts none of these, though DuckDB does.
        (["2024-03-01 24:00:00", "2024-03-01 10:30:00"], "STRING", "{}"),
        (["2024-03-01 10:30:00+19:00"], "STRING", "{}"),
        (["2024-03-01 10:30:00+18:01"], "STRING", "{}"),
        (["3/13/2024 0:30 AM"], "STRING", "{}"),
        (["3/13/2024 24:00"], "STRING", "{}"),
    ],
)
def test_times_of_one_format_are_read_by_it(tmp_path: Path, values: list[str], kind: str, pattern: str) -> None:
    found = inferred(tmp_path, values)
    assert (found.kind, found.pattern) == (kind, pattern)
    if kind == "DATE" and found.pattern == "to_date({}, 'd.M.yy')":
        assert found.is_guess
    if values == ["1/2/2024", "3/4/2024"]:
        assert "to_date(…, 'M/d/yyyy') or to_date(…, 'd/M/yyyy')" in found.remark


@pytest.mark.parametrize(
    ("first", "later", "kind"),
    [("1", "2.5", "DOUBLE"), ("1", "x", "STRING"), ("1/2/2024", "31/1/2024", "DATE"), ("0.5", "1e-15", "DOUBLE"),
     ("7", "1,571", "BIGINT"), ("", "5", "BIGINT"), ("2024-01-01", "2024-01-01 10:00:00", "TIMESTAMP")],
)  # fmt: skip
def test_all_rows_prove_a_type(tmp_path: Path, first: str, later: str, kind: str) -> None:
    """Not only the first of them: twelve of a hundred times as many rows are otherwise."""
    rows = "".join(f'w,"{value}"\n' for value in [first] * 1200 + [later] * 120)
    assert columns(new(tmp_path, write(tmp_path, "t.csv", "word,x\n" + rows), header=True))["x"] == kind


@pytest.mark.parametrize(
    ("text", "options", "names"),
    [
        ("a,b\n1,2\n", {"header": "true"}, ["a", "b"]),
        ("a;b\n1,5;2\n", {"header": "true", "sep": ";"}, ["a", "b"]),
        ("a\tb\n1\t2\n", {"header": "true", "sep": "\t"}, ["a", "b"]),
        ('a,b\n1,"x;y;z"\n2,"x;y;z"\n', {"header": "true"}, ["a", "b"]),
        ("a|b\r\n1|2\r\n", {"header": "true", "sep": "|"}, ["a", "b"]),
        ("\ufeffa,b\n1,2\n", {"header": "true"}, ["a", "b"]),
        ("1,2\n3,4\n", {"header": "false"}, ["_c0", "_c1"]),
        ('a,b\n"x ""y""",2\n', {"header": "true"}, ["a", "b"]),
        ('a,b\n"x \\"y\\"",2\n', {"header": "true", "escape": "\\"}, ["a", "b"]),
        ('id,path\n1,"C:\\dir\\"\n2,"D:\\"\n', {"header": "true"}, ["id", "path"]),
        ('id\tq\tn\n1\t"open\t5\n' + "2\tw\t4\n" * 20, {"header": "true", "sep": "\t", "quote": ""}, ["id", "q", "n"]),
        ('a,b\n"x\ny",2\n', {"header": "true", "multiLine": "true"}, ["a", "b"]),
        ('a,b\n"x\ry",2\n', {"header": "true", "multiLine": "true"}, ["a", "b"]),
        ("name,city\nAnn,Rome\nBen,Bonn\n", {"header": "true"}, ["name", "city"]),
        ("Ann,Rome\nAnn,Bonn\n", {"header": "false"}, ["_c0", "_c1"]),
        ("a,,b\n1,2,3\n", {"header": "true"}, ["a", "_c1", "b"]),
        ("id\n1\n2\n", {"header": "true"}, ["id"]),
        ("K,Ca,Na\n1,2,3\n2,3,4\n", {"header": "true"}, ["K", "Ca", "Na"]),
        ("no,price,amount\n1,2,3\n2,3,4\n", {"header": "true"}, ["no", "price", "amount"]),
        (",name\n0,Ann\n1,Ben\n", {"header": "true"}, ["_c0", "name"]),
        ("order id,order date\nA1,1. Mai\nB2,2. Mai\n", {"header": "true"}, ["order id", "order date"]),
        ("Ann,Rome\nBen,Bonn\nCem,Oslo\n", {"header": "false"}, ["_c0", "_c1"]),
        ("Ann,NA\nBen,5\nCem,7\n", {"header": "false"}, ["_c0", "_c1"]),
        ("Ann,unknown\nBen,5\nCem,7\n", {"header": "false"}, ["_c0", "_c1"]),
        ("Ann,\nBen,5\nCem,7\n", {"header": "false"}, ["_c0", "_c1"]),
        ("Ann,$5.00\nBen,5\nCem,7\n", {"header": "false"}, ["_c0", "_c1"]),
        ("Ann,12 kg\nBen,5\nCem,7\n", {"header": "false"}, ["_c0", "_c1"]),
        ("Ann,1 Jan 2024\nBen,2024-01-02\nCem,2024-01-03\n", {"header": "false"}, ["_c0", "_c1"]),
        ("Ann,Rome\n", {"header": "false"}, ["_c0", "_c1"]),
        ("Q1,Q2,Q10\n1,2,3\n4,5,6\n", {"header": "true"}, ["Q1", "Q2", "Q10"]),
        ("Preis;Rabatt\n1,50;0,5\n2,25;1\n", {"header": "true", "sep": ";"}, ["Preis", "Rabatt"]),
        ("Rechnung;Datum\nR1;02.03.2024\nR2;3.3.2024\n", {"header": "true", "sep": ";"}, ["Rechnung", "Datum"]),
        ("Kunde;Betrag\nAnn;1.234,50\nBen;5,00\n", {"header": "true", "sep": ";"}, ["Kunde", "Betrag"]),
        ('county,unemployed\nA,12\nB,"1,571"\n', {"header": "true"}, ["county", "unemployed"]),
        ("Ann;1,50;2\nBen;2,25;2\n", {"header": "false", "sep": ";"}, ["_c0", "_c1", "_c2"]),
        ("R1;02.03.2024\nR2;3.3.2024\n", {"header": "false", "sep": ";"}, ["_c0", "_c1"]),
        ("# made\n# by, us\nid,n,m\n1,2,3\n", {"header": "true", "comment": "#"}, ["id", "n", "m"]),
        ("[10.0.0.1],1\n[10.0.0.2],2\n", {"header": "false"}, ["_c0", "_c1"]),
        ("#id,n\n1,2\n3,4\n", {"header": "true"}, ["#id", "n"]),
        ("Ann;1.234,50;2\nBen;5,00;2\n", {"header": "false", "sep": ";"}, ["_c0", "_c1", "_c2"]),
    ],
)
def test_how_a_csv_text_is_written(tmp_path: Path, text: str, options: dict[str, str], names: list[str]) -> None:
    found = sniff.sniff(Path(write(tmp_path, "x.csv", text)))
    assert (found.options, found.columns) == (options, names)


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_decimal_commas_in_each_row_separate_nothing(tmp_path: Path, separator: str) -> None:
    rows = "".join(f"{n},5{separator}{n},25\n" for n in range(30))
    found = sniff.sniff(Path(write(tmp_path, "x.csv", f"lat{separator}lon\n{rows}")))
    assert (found.options.get("sep"), len(found.columns), found.rows[-1]) == (separator, 2, ["29,5", "29,25"])


def test_long_questions_over_numbers_are_a_header(tmp_path: Path) -> None:
    asked = [f"{n}. On a scale from 1 to 5, {'how much, all in all, ' * 8}do you agree with no. {n}?" for n in (1, 2)]
    text = io.StringIO()
    answers = [[str(n), str(n % 5 + 1), "NA" if n % 4 else str(n % 3), "no answer"] for n in range(30)]
    csv.writer(text).writerows([["Respondent ID", *asked, "Anything else?"], *answers])
    made = new(tmp_path, write(tmp_path, "survey.csv", text.getvalue()))
    assert [column.field for column in made.tables[0].columns] == ["Respondent ID", *asked, "Anything else?"]
    assert list(columns(made).values()) == ["BIGINT", "BIGINT", "BIGINT", "STRING"]
    assert made.tables[0].guess.proof is not None
    assert made.tables[0].guess.proof.rows == 30


def test_a_header_in_doubt_is_a_row_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "people.csv", "Ann,Rome\nBen,Bonn\nCem,Oslo\n")
    done = CliRunner().invoke(app, ["new", "people", "--from", "people.csv"])
    told = "no header: the first line is a row (in doubt, see --header and --no-header)"
    assert f"  {told} (a guess)\n" in done.output
    assert f"# a guess: {told}\n" in (tmp_path / "pipelines/people/pipeline.yaml").read_text()
    assert len(sniff.sniff(tmp_path / "people.csv").rows) == 3


@pytest.mark.parametrize(
    ("text", "doubt"),
    [("country,2019,2020\nFR,1,2\n", True), ("country,2019\nFR,1\n", False), ("1,2\n3,4\n", False),
     ("K,Ca,Na\n1,2,3\n2,3,4\n", True), ("Ann,NA\nBen,5\n", False), ("a,b\n1,2\n", False),
     ("name,city\n", True), ("name,city\nAnn,Rome\n", False), ("x y,z\nAnn,Rome\n", True)],
)  # fmt: skip
def test_when_a_header_is_in_doubt(tmp_path: Path, text: str, doubt: bool) -> None:
    found = sniff.sniff(Path(write(tmp_path, "t.csv", text)))
    assert (found.doubt, "in doubt" in " ".join(found.guessed)) == (doubt, doubt)


def test_a_header_in_doubt_is_one_where_another_file_has_the_same(tmp_path: Path) -> None:
    write(tmp_path, "in/a1.csv", "What is it?,How many?\nfish,3\n")
    write(tmp_path, "in/a2.csv", "What is it?,How many?\nbird,few\n")
    write(tmp_path, "in/a3.csv", "What is it?,How many?\n")
    [table] = new(tmp_path, str(tmp_path / "in")).tables
    assert ([one.options["header"] for one in table.samples], table.rows) == (["true"] * 3, 2)


def test_a_person_knows_better_whether_there_is_a_header(tmp_path: Path) -> None:
    file = write(tmp_path, "years.csv", "2023,2024\n1,2\n")
    assert columns(new(tmp_path, file, name="guessed")) == {"column_1": "BIGINT", "column_2": "BIGINT"}
    assert columns(new(tmp_path, file, name="told", header=True)) == {"c_2023": "BIGINT", "c_2024": "BIGINT"}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('{"a": 1}\n{"a": 2}\n', {}),
        ('[{"a": 1}, {"a": 2}]', {"multiLine": "true"}),
        ('[\n{"a": 1}\n,\n{"a": 2}\n]\n', {"multiLine": "true"}),
        ('{\n "a": 1\n}', {"multiLine": "true"}),
        ('{"a": 1}\r\n{"a": 2}', {}),
    ],
)
def test_how_a_json_text_is_written(tmp_path: Path, text: str, options: dict[str, str]) -> None:
    found = sniff.sniff(Path(write(tmp_path, "x.json", text)))
    assert (found.options, found.columns) == (options, ["a"])


def test_only_the_beginning_of_a_large_file_is_read(tmp_path: Path) -> None:
    record = json.dumps({"id": 1, "text": "x" * 1000})
    array = write(tmp_path, "array.json", "[" + ",".join([record] * 8000) + ", this is not JSON")
    lines = write(tmp_path, "lines.json", f"{record}\n" * 8000 + "this is not JSON\n")
    table = write(tmp_path, "table.csv", "id,text\n" + f'1,"{"y" * 1000}"\n' * 8000 + '2,"open')
    for file in (array, lines, table):
        found = sniff.sniff(Path(file))
        assert 900 <= len(found.rows) <= sniff.ROWS
        assert all(len(row) == 2 for row in found.rows)


HEADED = {"csv": True, "tsv": False}


@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "jsonl.gz", "json", "parquet"])
def test_no_more_than_so_many_ROWS_of_a_file_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, beyond: int
) -> None:
    monkeypatch.setattr(sniff, "ROWS", 5)
    rows = [{"id": n, "n": n % 2} for n in range(sniff.ROWS + beyond)]
    file = Path(write(tmp_path, f"t.{ending}", WRITERS[ending](rows)))
    found = sniff.sniff(file, header=HEADED.get(ending))
    assert [str(row[0]).lstrip("k") for row in found.rows] == [str(row["id"]) for row in rows[: sniff.ROWS]]


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_a_fault_behind_the_ROWS_that_are_looked_at_is_not_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    monkeypatch.setattr(sniff, "ROWS", 5)
    good = ['{"id": 1}'] * (sniff.ROWS + beyond)
    lines = write(tmp_path, "lines.jsonl", "\n".join([*good, "oh", ""]))
    array = write(tmp_path, "array.json", f"[{', '.join([*good, 'oh'])}]")
    for file in map(Path, (lines, array)):
        if beyond >= 0:
            assert len(sniff.sniff(file).rows) == sniff.ROWS
        else:
            with pytest.raises(SourceError, match="is not JSON"):
                sniff.sniff(file)


def test_parquet_of_small_row_groups_is_looked_at_as_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sniff, "ROWS", 5)
    parquet.write_table(pa.table({"id": list(range(8))}), tmp_path / "t.parquet", row_group_size=2)
    assert sniff.sniff(tmp_path / "t.parquet").rows == [[n] for n in range(5)]


@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "json"])
def test_a_file_of_no_more_than_so_many_BYTES_is_looked_at_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, packed: bool, beyond: int
) -> None:
    """Of a longer one what may be cut off is left out, a character of two bytes here."""
    text = {
        "csv": "id,word\n1,one\n2,two\n3,drü",
        "jsonl": '{"id": 1, "word": "one"}\n{"id": 2, "word": "two"}\n{"id": 3, "word": "drü"}',
        "json": '[{"id": 1, "word": "one"}, {"id": 2, "word": "two"}, {"id": 3, "word": "drü"}]',
    }[ending].encode()
    monkeypatch.setattr(sniff, "BYTES", len(text) - beyond)
    content = gzip.compress(text) if packed else text
    found = sniff.sniff(Path(write(tmp_path, f"t.{ending}{'.gz' * packed}", content)), header=HEADED.get(ending))
    assert "encoding" not in found.options
    # The end of an array may be cut off, but its last element is whole.
    words = ["one", "two"] if beyond > 0 and ending != "json" else ["one", "two", "drü"]
    assert [row[1] for row in found.rows] == words


@pytest.mark.parametrize(
    ("codec", "encoding"),
    [("cp1252", "windows-1252"), ("utf-16", "UTF-16"), ("utf-16-le", "UTF-16LE"), ("utf-16-be", "UTF-16BE"),
     ("utf-32", "UTF-32"), ("utf-8-sig", None)],
)  # fmt: skip
def test_the_encoding_is_told_from_the_bytes(tmp_path: Path, codec: str, encoding: str | None) -> None:
    rows = [("1", "Café €5"), ("2", "“Été”")]
    text = "id,name\r\n" + "".join(f"{n},{word}\r\n" for n, word in rows)
    found = sniff.sniff(Path(write(tmp_path, "t.csv", text.encode(codec))))
    assert found.options.get("encoding") == encoding
    assert (found.columns, [tuple(row) for row in found.rows]) == (["id", "name"], rows)


def test_numbers_inside_of_nested_values_are_hinted(tmp_path: Path) -> None:
    record = {"id": 1, "lines": [{"price": 1.5, "n": 2, "s": "x"}], "odd": {"a b": 1}, "by": {"select": 1}}
    made = new(tmp_path, write(tmp_path, "x.json", json.dumps(record) + "\n"))
    hints = definition.load("mine", at(tmp_path)).bronze["x_bronze"].inner_hints
    assert hints == {
        ("lines", "element", "price"): "DOUBLE",
        ("lines", "element", "n"): "BIGINT",
        ("by", "select"): "BIGINT",
    }
    assert columns(made)["lines"] == "NESTED"


def test_inner_numbers_keep_their_digits(tmp_path: Path) -> None:
    lines = ['{"k": 1, "n": {"a": 9007199254740993, "b": 9007199254740993, "c": 1}}']
    lines += ['{"k": 2, "n": {"a": 0.5, "b": 2, "c": 0.5}}']
    [table] = new(tmp_path, write(tmp_path, "t.jsonl", "\n".join(lines))).tables
    assert inner_numbers(table.columns[1], table.samples) == {("b",): "BIGINT", ("c",): "DOUBLE"}
    assert table.columns[1].inferred_type.remark == ""


def test_what_only_later_rows_of_json_have_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sniff, "ROWS", 50)
    lines = [json.dumps({"k": n, "n": {"a": 1}}) for n in range(60)] + ['{"k": 60, "refund": 2.5, "n": {"a": 0.5}}']
    made = new(tmp_path, write(tmp_path, "t.jsonl", "\n".join(lines)))
    told = near_misses.sentences(made.tables[0], examples=False)
    assert [sentence for sentence in told if "refund" in sentence and "later rows" in sentence]
    assert "the first 50 rows" in (made.folder / "t.sql").read_text()


def test_what_parquet_says_of_its_columns_is_taken(tmp_path: Path) -> None:
    table = pa.table(
        {"id": [1, 2], "at": pa.array([0, 1], pa.timestamp("us", "UTC")), "code": ["001", "002"], "l": [[1], [2]]}
    )
    parquet.write_table(table, tmp_path / "x.parquet")
    made = new(tmp_path, str(tmp_path / "x.parquet"))
    assert columns(made) == {"id": "BIGINT", "at": "TIMESTAMP", "code": "STRING", "l": "NESTED"}
    assert "CAST" not in (made.folder / "x.sql").read_text()


# --- what is guessed -------------------------------------------------------------------------------------------------


def test_what_is_guessed_of_orders(tmp_path: Path) -> None:
    made = new(tmp_path, write(tmp_path, "orders.csv", ORDERS))
    guess = made.tables[0].guess
    assert (guess.keys, guess.event_time, guess.pii) == (["order_id"], "ordered_at", ["email"])
    text = (made.folder / "pipeline.yaml").read_text()
    assert "# a guess: by name, and unique in all 40 rows of these files" in text
    assert made.gold == "orders_by_day"
    loaded = definition.load("mine", at(tmp_path))
    assert loaded.gold[made.gold].refresh_strategy().kind == "partial"
    assert loaded.silver["orders"].expectations["quantity_not_negative"].action == "keep"


@pytest.mark.parametrize(
    ("header", "row", "keys"),
    [
        ("device_id,time,rate", lambda n: f"{n % 4},{1710000000 + n},7.5", ["device_id", "time"]),
        ("city,country,people", lambda n: f"c{n},k{n % 3},{n}", []),
        ("code,country,people", lambda n: f"c{n},k{n % 3},{n}", ["code"]),
        ("people,zip_code", lambda n: f"{n % 3},{n}", []),
        ("pickup,dropoff", lambda n: f"2024-01-01 10:{n:02d}:00,2024-01-01 11:{n:02d}:00", []),
        ("word,other,number", lambda n: f"w{n % 4},o{n % 5},{n % 2}", []),
        ("day,shop,sold", lambda n: f"2024-01-{n % 5 + 1:02d},s{n // 5},{n}", []),
        ("day,shop_id,sold", lambda n: f"2024-01-{n % 5 + 1:02d},s{n // 5},{n}", ["shop_id", "day"]),
        ("amount,customer_id,order_id", lambda n: f"{n},{n % 9},{n}", ["order_id"]),
        ("a,b,price", lambda n: f"x,y,{n}.5", []),
    ],
)
def test_keys_are_named_or_unique(tmp_path: Path, header: str, row: Any, keys: list[str]) -> None:
    text = f"{header}\n" + "".join(f"{row(n)}\n" for n in range(20))
    assert new(tmp_path, write(tmp_path, "t.csv", text)).tables[0].guess.keys == keys


def counties(rows: int, code: str = "county_code") -> str:
    """Sightings: the first thousand each of a county of its own, as in a file that lists what is rare at first."""
    lines = (f"{n % 1000},species {n // 500},{'plant' if n % 3 else 'bird'}\n" for n in range(rows))
    return f"{code},species_id,kind\n" + "".join(lines)


def test_keys_that_only_the_first_rows_show_are_a_comment(tmp_path: Path) -> None:
    text = counties(1000) + counties(2360).partition("\n")[2]
    made = new(tmp_path, write(tmp_path, "sightings.csv", text), land=True)
    assert (made.tables[0].guess.keys, definition.load("mine", at(tmp_path)).silver["sightings"].keys) == ([], [])
    why = "not unique: 2,360 of 3,360 rows would be set aside as duplicates"
    assert f"\n    # keys: [county_code]  # {why}\n" in (made.folder / "pipeline.yaml").read_text()
    assert made.facts()["tables"][0]["no_keys"] == [{"keys": ["county_code"], "why": why}]


def test_keys_are_those_that_all_rows_prove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for most, keys in ((1, []), (2, ["county_id", "species_id"]), (3, ["county_id", "species_id"])):
        monkeypatch.setattr("sluicegate.tools.scaffold.suggest.MOST_CANDIDATES", most)
        assert (
            new(tmp_path, write(tmp_path, "t.csv", counties(2360, "county_id")), name=f"t{most}").tables[0].guess.keys
            == keys
        )
    made = new(tmp_path, write(tmp_path, "sightings.csv", counties(2360, "county_id")))
    assert made.tables[0].guess.keys == ["county_id", "species_id"]
    text = (made.folder / "pipeline.yaml").read_text()
    assert "unique in all 2,360 rows of these files" in text
    assert "# keys: [county_id]  # not unique: 1,360 of 2,360 rows" in text


def packed(rows: list[dict[str, Any]]) -> bytes:
    return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode(), mtime=0)


def columnar(rows: list[dict[str, Any]]) -> bytes:
    file = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), file)
    return file.getvalue()


WRITERS: dict[str, Any] = {
    "csv": lambda rows: "id,n\n" + "".join(f"{row['id']},{row['n']}\n" for row in rows),
    "tsv": lambda rows: "".join(f"k{row['id']}\t{row['n']}\n" for row in rows),
    "jsonl": lambda rows: "".join(json.dumps(row) + "\n" for row in rows),
    "jsonl.gz": packed,
    "json": lambda rows: json.dumps(rows, indent=1),
    "parquet": columnar,
}


@pytest.mark.parametrize("ending", WRITERS)
@pytest.mark.parametrize(("last", "others"), [(1, 0), (5, 1)])
def test_a_key_is_proved_by_the_last_row_of_the_last_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, last: int, others: int
) -> None:
    monkeypatch.setattr("sluicegate.tools.scaffold.group_files.SAMPLED", 1)
    monkeypatch.setattr("sluicegate.tools.scaffold.sniff.ROWS", 20)
    rows = [{"id": n, "n": n % 2} for n in range(50)]
    for number in range(last):
        content = rows if number < last - 1 else [*rows[1:], {"id": 7, "n": 3}]
        content = [{"id": row["id"] + 1000 * number * (row["n"] != 3), "n": row["n"]} for row in content]
        write(tmp_path, f"in/part{number}.{ending}", WRITERS[ending](content))
    made = new(tmp_path, f"t={tmp_path}/in")
    doubled = 1
    assert [*made.tables[0].guess.no_keys.values()] == [
        f"not unique: {doubled} of {50 * last} rows would be set aside as duplicates,"
        f" though 1 of them differs from the row that is kept, as does record 50 of part{last - 1}.{ending}"
    ]
    assert len(made.tables[0].files) == 1 + 4 * others
    write(tmp_path, f"in/part{last - 1}.{ending}", WRITERS[ending]([{"id": n, "n": 0} for n in range(9000, 9050)]))
    assert new(tmp_path, f"t={tmp_path}/in", name="whole").tables[0].guess.keys == (["id"] if ending != "tsv" else [])


@pytest.mark.parametrize(
    ("first", "later", "why"),
    [
        ([f"{n}" for n in range(1, 30)], [" 7"], "not unique: 1 of 30"),
        ([f"{n}12345678901234567.0" for n in range(11, 40)], ["1212345678901234567.00"], "not unique: 1 of 30"),
        ([f"{10**20 + n}.5" for n in range(29)], [f"{10**20}.50"], "not unique: 1 of 30"),
        ([f"{10**30 + n}" for n in range(29)], [f"{10**30}"], "not unique: 1 of 30"),
        (range(1, 30), ["x", ""], "not proved: 2 of 31 rows have no value there that fits"),
    ],
)
def test_keys_are_compared_as_silver_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: Any, later: list[str], why: str
) -> None:
    monkeypatch.setattr("sluicegate.tools.scaffold.sniff.ROWS", 29)
    text = "key,word,weight\n" + "".join(f"{value},x,{n}.5\n" for n, value in enumerate([*first, *later]))
    guess = new(tmp_path, write(tmp_path, "t.csv", text)).tables[0].guess
    assert guess.keys == []
    assert next(iter(guess.no_keys.values())).startswith(why)


def test_keys_of_times_are_compared_as_instants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    rows = [f"a,2024-01-{n:02d} 10:00:00" for n in range(1, 30)]
    text = "\n".join(["device_id,at", *rows, "a,2024-01-03T12:00:00+02:00"]) + "\n"
    assert new(tmp_path, write(tmp_path, "t.csv", text)).tables[0].guess.keys == []


def test_the_days_of_a_long_series_are_keys_and_names_of_people_are_none(tmp_path: Path) -> None:
    days = [f"20{n // 28:02d}-01-{n % 28 + 1:02d},up{n},1.5" for n in range(suggest.SERIES)]
    for rows, keys in ((days[1:], []), (days, ["day"])):
        made = new(tmp_path, write(tmp_path, "t.csv", "\n".join(["day,direction,close", *rows])), name=f"t{len(rows)}")
        assert made.tables[0].guess.keys == keys
    people = "name,age\n" + "".join(f"Name {n},{n}\n" for n in range(200))
    made = new(tmp_path, write(tmp_path, "people.csv", people))
    assert made.tables[0].guess.keys == []
    assert "    # keys: [name]  # no name says that" in (made.folder / "pipeline.yaml").read_text()


@pytest.mark.parametrize(
    ("later", "why"),
    [
        ("x\\,7,99\n", "not unique: 1 of 41"),  # outside of quotes a backslash is a sign as any other for Spark
        ('"x" y,40,1\n', "not proved: a file cannot be read to its end"),
    ],
)
def test_rows_that_spark_may_read_otherwise_prove_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: str, why: str
) -> None:
    text = "word,id,n\n" + "".join(f"w,{n},1\n" for n in range(40))
    monkeypatch.setattr("sluicegate.tools.scaffold.sniff.BYTES", len(text))
    guess = new(tmp_path, write(tmp_path, "t.csv", text + later)).tables[0].guess
    assert guess.keys != ["id"]
    assert guess.no_keys[("id",)].startswith(why)


@pytest.mark.parametrize("later", ['"x\ry",40,1\n', '"x\\\\",40,1\n', '"x ""y"", z",40,1\n'])
def test_rows_that_rfc_4180_leaves_no_doubt_of_prove_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: str
) -> None:
    text = "word,id,n\n" + "".join(f"w,{n},1\n" for n in range(40))
    monkeypatch.setattr("sluicegate.tools.scaffold.sniff.BYTES", len(text))
    assert new(tmp_path, write(tmp_path, "t.csv", text + later)).tables[0].guess.keys == ["id"]


def test_a_quoted_line_break_far_down_is_seen(tmp_path: Path) -> None:
    text = "id,t\n" + "".join(f"{n},plain\n" for n in range(1200)) + '1200,"two\n7,lines"\n1201,end\n'
    assert sniff.sniff(Path(write(tmp_path, "x.csv", text))).options == {"header": "true", "multiLine": "true"}


BROKEN = "id,t\n" + "".join(f"{n},plain\n" for n in range(1200)) + '1200,"two\n7,lines"\n1201,end\n'


@pytest.mark.parametrize(("more", "seen"), [(-1, False), (0, True), (1, True)])
def test_all_lines_of_files_of_up_to_CHECKED_bytes_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int, seen: bool
) -> None:
    monkeypatch.setattr(sniff, "CHECKED", len(BROKEN) + more)
    found = sniff.sniff(Path(write(tmp_path, "x.csv", BROKEN)))
    assert (found.options.get("multiLine") == "true") == seen


@pytest.mark.parametrize(("more", "seen"), [(-1, False), (0, True), (1, True)])
def test_lines_in_doubt_are_split_up_to_SPLIT_CHARACTERS(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int, seen: bool
) -> None:
    monkeypatch.setattr(sniff, "SPLIT_CHARACTERS", len(BROKEN) + more)
    found = sniff.sniff(Path(write(tmp_path, "x.csv", BROKEN)))
    assert (found.options.get("multiLine") == "true") == seen
    assert any("in doubt" in remark for remark in found.guessed) != seen


def test_backslashes_that_escape_nothing_are_a_part_of_a_key(tmp_path: Path) -> None:
    text = "id,n\n" + "".join(f"C:\\{n},1\n" for n in range(20)) + "C:3,1\n"
    assert new(tmp_path, write(tmp_path, "t.csv", text)).tables[0].guess.keys == ["id"]


def test_text_behind_a_quoted_value_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "word,id,n\n" + "".join(f'"w",{n},1\n' for n in range(40))
    monkeypatch.setattr("sluicegate.tools.scaffold.sniff.BYTES", len(text))
    guess = new(tmp_path, write(tmp_path, "t.csv", text + '"x"y,40,1\n')).tables[0].guess
    assert guess.no_keys[("id",)] == "not proved: a file cannot be read to its end"


@pytest.mark.parametrize(
    ("kinds", "proved"),
    [((pa.decimal128(9, 1), pa.decimal128(9, 2)), False), ((pa.int64(), pa.int32()), True)],
)
def test_keys_of_types_that_differ_are_compared_if_equal_values_look_the_same(
    tmp_path: Path, kinds: tuple[pa.DataType, pa.DataType], proved: bool
) -> None:
    (tmp_path / "in").mkdir()
    for number, kind in enumerate(kinds):
        some = pa.array(range(20 * number, 20 * number + 20)).cast(pa.decimal128(21, 0)).cast(kind)
        parquet.write_table(pa.table({"id": some}), tmp_path / f"in/{number}.parquet")
    guess = new(tmp_path, f"t={tmp_path}/in").tables[0].guess
    assert guess.keys == (["id"] if proved else [])
    if not proved:
        assert guess.no_keys[("id",)] == f"not proved: id is {kinds[1]} in 1.parquet, and {kinds[0]} in another file"


@pytest.mark.parametrize(("most", "proved"), [(99, False), (100, True), (101, True)])
def test_no_key_is_proved_by_some_of_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, proved: bool
) -> None:
    text = "id,n\n" + "".join(f"{n},1\n" for n in range(100, 200))
    file = write(tmp_path, "t.csv", text)
    monkeypatch.setattr("sluicegate.tools.scaffold.all_rows.MOST_ROWS", most)
    assert bool(new(tmp_path, file).tables[0].guess.keys) is proved
    monkeypatch.setattr("sluicegate.tools.scaffold.all_rows.MOST_ROWS", 100)
    monkeypatch.setattr("sluicegate.tools.scaffold.all_rows.MOST_BYTES", len(text) + most - 100)
    assert bool(new(tmp_path, file, name="bytes").tables[0].guess.keys) is proved
    array = json.dumps([{"id": n} for n in range(100)])
    monkeypatch.setattr("sluicegate.tools.scaffold.all_rows.MOST_ARRAY", len(array) + most - 100)
    assert bool(new(tmp_path, write(tmp_path, "a.json", array), name="array").tables[0].guess.keys) is proved


@pytest.mark.parametrize("bad", [b"\x81\xfe,1\n", b'"a\n"b,1\n', b'7,"' + b"x" * (9 << 20) + b'"\n'])
def test_a_file_that_cannot_be_read_to_its_end_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: bytes
) -> None:
    monkeypatch.setattr("sluicegate.tools.scaffold.sniff.BYTES", 1000)
    text = "id,n\n" + "".join(f"{n},1\n" for n in range(400))
    guess = new(tmp_path, write(tmp_path, "t.csv", text.encode() + bad)).tables[0].guess
    assert guess.keys == []
    assert guess.no_keys[("id",)].startswith("not proved: ")


def test_a_few_rows_that_differ_make_no_keys(tmp_path: Path) -> None:
    made = new(tmp_path, write(tmp_path, "t.csv", "day,shop\n2024-01-01,a\n2024-01-02,b\n"))
    assert made.tables[0].guess.keys == []
    silver = definition.load("mine", at(tmp_path)).silver["t"]
    assert (silver.event_time, silver.expectations) == ("day", {})  # a row of nothing has no event time


@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize(
    ("header", "key"),
    [
        ("word,n", None),
        ("n,code", None),
        ("n,user_id", "user_id"),
        ("n,when", None),
        ("id,n", "id"),
        ("t_id,n", "t_id"),
        ("code,n", "code"),
    ],
)
def test_values_that_differ_in_FEWEST_rows_make_a_key_and_in_fewer_if_their_name_says_so(
    tmp_path: Path, header: str, key: str | None, beyond: int
) -> None:
    names = header.split(",")
    text = f"{header}\n" + "".join(
        ",".join("x" if name == "n" or name != key else f"v{row}" for name in names) + "\n"
        for row in range(suggest.FEWEST + beyond)
    )
    by_name = key in ("id", "t_id") or names[0] == key == "code"
    guess = new(tmp_path, write(tmp_path, "t.csv", text), header=True).tables[0].guess
    assert guess.keys == ([key] if key and (beyond >= 0 or by_name) else [])


def test_a_column_with_a_gap_is_no_key_and_no_event_time(tmp_path: Path) -> None:
    made = new(tmp_path, write(tmp_path, "t.csv", "id,at\n1,2024-01-01\n,2024-01-02\n3,\n"))
    assert (made.tables[0].guess.keys, made.tables[0].guess.event_time) == ([], None)


@pytest.mark.parametrize("name", ["email", "Phone", "birth_date", "last_name", "name", "customerName", "home address"])
def test_names_that_tell_of_people_mark_personal_data(tmp_path: Path, name: str) -> None:
    assert len(new(tmp_path, write(tmp_path, "t.csv", f"id,{name}\n1,x\n2,y\n")).tables[0].guess.pii) == 1


@pytest.mark.parametrize("name", ["product_name", "city", "filename", "shipping"])
def test_names_of_things_are_not_taken_for_personal_data(tmp_path: Path, name: str) -> None:
    assert new(tmp_path, write(tmp_path, "t.csv", f"id,{name}\n1,x\n2,y\n")).tables[0].guess.pii == []


def test_no_value_of_a_file_stands_in_what_is_written(tmp_path: Path) -> None:
    made = new(
        tmp_path,
        write(tmp_path, "t.csv", "id,name,group\n" + "".join(f"{n},Zebedee,Orion{n % 2}\n" for n in range(12))),
    )
    written = "".join(file.read_text() for file in made.folder.iterdir()) + json.dumps(made.facts())
    assert "Zebedee" not in written
    assert "Orion" not in written


# --- names -----------------------------------------------------------------------------------------------------------

ODD = [
    "a;b", "drop table", "x); DROP TABLE y; --", "select", "from", "1st", "größe", "名前", "a.b", "a`b", "a'b", 'a"b',
    "back\\slash", "Date", "_hidden", "_pos", "source_file", "", " lead", "per%", "a=b", "#no", "${landing}", "a: b",
    "- c", "{x}", "a\xa0b", "interval", "values", "current_date", "true", "null", "on",
]  # fmt: skip


def test_odd_names_of_columns_are_all_there(tmp_path: Path) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([ODD, *[[str(n)] * len(ODD) for n in range(3)]])
    made = new(tmp_path, write(tmp_path, "odd.csv", text.getvalue()), header=True)
    table = made.tables[0]
    assert [column.field for column in table.columns] == [name or "_c17" for name in ODD]
    assert table.unusable_fields == []
    query = definition.load("mine", at(tmp_path)).silver["odd"].query
    assert query is not None
    assert query.outputs == [column.name for column in table.columns]


def test_a_name_that_is_there_twice_is_found_in_rescued_data(tmp_path: Path) -> None:
    made = new(tmp_path, write(tmp_path, "t.csv", "a,a,A,a\n1,2,3,4\n5,6,7,8\n"))
    table = made.tables[0]
    assert [(c.field, c.name, table.bronze_column(c)) for c in table.columns] == [
        ("a", "a", "a"),
        ("a", "a_2", ""),
        ("A", "a_3", ""),
    ]
    assert table.unusable_fields == ["a"]
    assert table.columns[1].values == ["2", "6"]
    assert "# - a\n" in (made.folder / "pipeline.yaml").read_text()


def test_a_name_with_a_line_break_is_told_and_left_out(tmp_path: Path) -> None:
    made = new(tmp_path, write(tmp_path, "t.csv", 'a,"b\nbronze: {}"\n1,2\n3,4\n'))
    assert list(columns(made)) == ["a"]
    assert made.tables[0].unusable_fields == ["b\nbronze: {}"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Orders 2024", "orders_2024"), ("2024-orders", "orders"), ("2024", "t_2024"), ("Größe", "grosse"),
        ("名前", ""),
        ("x_quarantine", "x"), ("../../etc", "etc"), ("a;drop table b", "a_drop_table_b"), ("_", ""),
    ],
)  # fmt: skip
def test_a_table_is_named_for_its_files(text: str, name: str) -> None:
    assert naming.table_name(text) == name


@given(st.text())
def test_a_text_in_a_comment_stays_in_its_line(text: str) -> None:
    told = naming.comment_text(text)
    assert len(told.splitlines()) <= 1
    assert "\\" not in told
    assert len(told) <= 100


# --- which files make which table ------------------------------------------------------------------------------------


def test_a_folder_of_several_shapes_makes_several_tables(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    for day in (1, 2):
        write(folder, f"orders-2024-01-{day:02d}.csv", ORDERS)
        write(folder, f"refunds_{day}.csv", "refund,why\n1,broken\n2,late\n")
    write(folder, "clicks/a.json", '{"page": "x", "at": 1710000000}\n')
    write(folder, ".DS_Store", b"\0\1")
    write(folder, "orders.csv.tmp", "half")
    made = new(tmp_path, str(folder))
    assert {table.name: len(table.files) for table in made.tables} == {"orders": 2, "refunds": 2, "clicks": 1}


def test_files_of_one_shape_given_one_by_one_make_one_table(tmp_path: Path) -> None:
    files = [write(tmp_path, f"in/orders_{n}.csv", ORDERS) for n in range(3)]
    made = new(tmp_path, *files)
    assert [(table.name, len(table.files)) for table in made.tables] == [("orders", 3)]
    assert made.tables[0].guess.keys == []  # each is in all three files


def test_files_without_headers_are_one_table_only_if_their_types_are_equal(tmp_path: Path) -> None:
    vendors = [write(tmp_path, f"vendors_{n}.csv", f"1,Acme,true,202{n}-01-02\n2,Bolt,false,\n") for n in range(2)]
    provinces = write(tmp_path, "provinces.csv", "AB,Alberta,CA,4.4\nBC,British Columbia,CA,5\n")
    made = new(tmp_path, *vendors, provinces)
    assert {table.name: len(table.files) for table in made.tables} == {"vendors": 2, "provinces": 1}


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    file = write(tmp_path, "orders.csv", ORDERS)
    settings = Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), Path(file))
    with pytest.raises(UserError, match=r"cannot be written|exists"):
        create("mine", [file], settings, False, None)


def test_a_table_can_be_named_and_have_files_of_several_folders(tmp_path: Path) -> None:
    files = [write(tmp_path, f"{place}/data.csv", ORDERS) for place in ("east", "west")]
    made = new(tmp_path, *[f"sales={file}" for file in files], land=True)
    assert [(table.name, len(table.files)) for table in made.tables] == [("sales", 2)]
    assert sorted(path.name for path in made.landed) == ["2-data.csv", "data.csv"]


def test_of_many_files_the_first_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.tools.scaffold.group_files.SAMPLED", 3)
    for number in range(9):
        write(tmp_path, f"in/f{number}.csv", ORDERS if number < 5 else "not looked at")
    made = new(tmp_path, str(tmp_path / "in"), land=True)
    assert (len(made.tables[0].samples), len(made.tables[0].files), len(made.landed)) == (3, 9, 9)
    write(tmp_path, "in/f0.csv", "other,shape\n1,2\n")
    with pytest.raises(UserError, match="the first 3"):
        new(tmp_path, str(tmp_path / "in"), name="other")


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_files_of_several_shapes_are_told_apart_if_all_are_SAMPLED(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    monkeypatch.setattr(group_files, "SAMPLED", 4)
    count = group_files.SAMPLED + beyond
    for number in range(count):
        write(tmp_path, f"alike/f{number}.csv", ORDERS)
        name, text = ("orders", ORDERS) if number < 2 else ("words", "a,b\n1,2\n")
        write(tmp_path, f"in/{name}_{number}.csv", text)
    [alike] = new(tmp_path, str(tmp_path / "alike"), name="alike").tables
    assert (len(alike.samples), len(alike.files)) == (min(count, group_files.SAMPLED), count)
    if beyond <= 0:
        made = new(tmp_path, str(tmp_path / "in"))
        assert [len(table.files) for table in made.tables] == [2, count - 2]
        return
    with pytest.raises(UserError, match="the first 4"):
        new(tmp_path, str(tmp_path / "in"))


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.csv", "", "is empty"),
        ("x.csv", " \n\n", "is empty"),
        ("x.json", "[]", "no record"),
        ("x.json", "[1, 2]", "objects"),
        ("x.json", '{"": null}', "has no field"),
        ("x.json", '[{"a": 1}, {"a"', "is not JSON"),
        ("x.json", '{"a": 1}\n{"a": \n', "is not JSON"),
        ("x.json", '{\n"a": 1}\n{\n"a": 2}', "more than one JSON value"),
        ("x.json", '[{"a": 1}]\n[{"a": 2}]', "more than one JSON value"),
        ("x.json", "[" * 100_000, "is not JSON"),
        ("x.xml", "<a/>", "format"),
        ("x.docx", "hello", "format"),
        ("x.txt", "dear reader\nhello\n", "does not look like a table"),
        ("x.csv", b"a,b\n1,\0\n", "text"),
        ("x.csv", b"a,b\n1,\x81\xe9\n", "encoding that"),
        ("x.zip", b"PK\x03\x04....", "cannot be unpacked"),
        ("x.xlsx", b"PK\x03\x04....", "workbook"),
        ("x.xls", b"\xd0\xcf\x11\xe0", "workbook"),
        ("x.7z", b"7z\xbc\xaf", "7z"),
        ("x.json", '{"data": [{"a": 1}]} {"data": [{"a": 2}]}', "more than one JSON value"),
        ("x.orc", b"ORC....", "looks like ORC"),
        ("x.parquet", b"PAR1....", "cannot be read as Parquet"),
        ("x.csv", gzip.compress(b"a,b\n1,2\n", mtime=0), "ends? in .gz"),
        ("x.csv.gz", "a,b\n1,2\n", "is not compressed"),
        ("x.csv.gz", gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:-20], "cannot be read"),
        ("名前.csv", "a,b\n1,2\n", "table"),
    ],
)
def test_a_file_that_says_nothing_is_refused(tmp_path: Path, name: str, content: str | bytes, said: str) -> None:
    file = write(tmp_path, f"名/{name}", content)
    with pytest.raises(UserError, match=said) as raised:
        new(tmp_path, file, land=True)
    assert raised.value.exit_code == 2
    assert no_trace(tmp_path)


@pytest.mark.parametrize("name", ["", "Sales", "../x", "a b", "1x", "x;y", ".x", "a/b", "-x"])
def test_a_name_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError):
        new(tmp_path, write(tmp_path, "x.csv", ORDERS), name=name)
    assert no_trace(tmp_path)


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        (["a/x.csv", "b/x.csv"], "name x"),
        (["a/x.csv", "a/x_bronze.csv"], "name x_bronze"),
        (["a/x.csv", "x_by_day=b/x.csv"], "name x_by_day"),
        (["t=a/x.csv", "t=a/other.csv"], "2 different structures"),
        (["Bad=a/x.csv"], "name"),
        (["x_quarantine=a/x.csv"], "ends in _quarantine"),
        (["missing.csv"], "file"),
        (["empty"], "no file"),
    ],
)
def test_tables_that_cannot_be_are_refused(tmp_path: Path, sources: list[str], said: str) -> None:
    for name in ("a/x.csv", "b/x.csv"):
        write(tmp_path, name, ORDERS)
    write(tmp_path, "a/x_bronze.csv", "some,thing\n1,2\n")
    write(tmp_path, "a/other.csv", "other,shape\n1,2\n")
    (tmp_path / "empty").mkdir()
    given_ = [source.replace("=", f"={tmp_path}/") if "=" in source else f"{tmp_path}/{source}" for source in sources]
    with pytest.raises(UserError, match=said):
        new(tmp_path, *given_)
    assert no_trace(tmp_path)


def test_a_pipeline_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "pipelines" / "mine").mkdir(parents=True)
    with pytest.raises(UserError, match="pipeline mine already"):
        new(tmp_path, write(tmp_path, "x.csv", ORDERS), land=True)
    assert not list((tmp_path / "pipelines" / "mine").iterdir())
    assert not (tmp_path / "landing").exists()


# --- what is landed --------------------------------------------------------------------------------------------------


def test_files_land_whole_with_their_time_under_names_that_spark_reads(tmp_path: Path) -> None:
    file = Path(write(tmp_path, "_odd {name}: [1]*.csv", ORDERS))
    os.utime(file, (1_700_000_000, 1_700_000_000))
    made = new(tmp_path, f"t={file}", land=True)
    [landed] = made.landed
    assert landed == tmp_path / "landing" / "mine" / "t" / "odd -name-- -1--.csv"
    assert landed.read_text() == ORDERS
    assert landed.stat().st_mtime == 1_700_000_000


def test_without_landing_the_folders_are_there_and_the_copy_is_told(tmp_path: Path) -> None:
    made = new(tmp_path, write(tmp_path, "my orders.csv", ORDERS))
    assert (tmp_path / "landing" / "mine" / "my_orders").is_dir()
    assert made.commands()[0] == f"cp -- '{tmp_path}/my orders.csv' {tmp_path}/landing/mine/my_orders/"


def test_no_file_is_written_over_and_none_is_read_besides(tmp_path: Path) -> None:
    file = write(tmp_path, "orders.csv", ORDERS)
    there = Path(write(tmp_path, "landing/mine/orders/orders.csv", "mine, and other"))
    with pytest.raises(UserError, match="would be"):
        new(tmp_path, file, land=True)
    assert there.read_text() == "mine, and other"
    there.rename(there.with_name("another.csv"))
    with pytest.raises(UserError, match="be read"):
        new(tmp_path, file, land=True)
    assert not list((tmp_path / "pipelines").iterdir())


def test_a_copy_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [write(tmp_path, name, ORDERS) for name in ("a.csv", "b/b.csv")]
    copy = scaffold_create._copy

    def full(source: Path, target: Path) -> None:
        if source.name == "b.csv":
            raise OSError(28, "No space left on device")
        copy(source, target)

    monkeypatch.setattr(scaffold_create, "_copy", full)
    with pytest.raises(SourceError, match="could not be copied"):
        new(tmp_path, *files, land=True)
    assert no_trace(tmp_path)


def test_land_is_for_folders(tmp_path: Path) -> None:
    settings = Settings.of(str(tmp_path / "lake"), "s3a://bucket/landing", tmp_path / "pipelines")
    with pytest.raises(UserError, match="copies to a folder"):
        create("mine", [write(tmp_path, "x.csv", ORDERS)], settings, land=True, header=None)
    made = create("mine", [write(tmp_path, "x.csv", ORDERS)], settings, land=False, header=None)
    assert made.landing == {"x": "s3a://bucket/landing/mine/x"}


# --- near misses -----------------------------------------------------------------------------------------------------


def dirty(values: list[Any], bad: list[str]) -> list[Any]:
    """Values with bad ones among them, from the third place on."""
    return [*values[:2], *bad, *values[2:]]


@pytest.mark.parametrize("beyond", [-1, 0, 1])
@pytest.mark.parametrize("count", [nearly.ENOUGH, 100])
def test_a_share_is_few_from_ENOUGH_and_NEARLY_on(count: int, beyond: int) -> None:
    """Of 20 values none may be otherwise, of 21 one; of 100 five, and not six."""
    most = round(count * (1 - nearly.NEARLY))
    expected = beyond >= 0 if count == nearly.ENOUGH else beyond <= 0
    whole, otherwise = (count + 1 + beyond, 1) if count == nearly.ENOUGH else (count, most + beyond)
    assert nearly.has_few_exceptions(otherwise, whole) is expected
    assert not nearly.has_few_exceptions(0, whole)


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_no_more_than_MOST_MISFITS_different_values_are_mistakes(tmp_path: Path, beyond: int) -> None:
    bad = [f"{n}a" for n in range(infer_types.MOST_MISFITS + beyond)]
    found = inferred(tmp_path, [*map(str, range(400)), *bad])
    assert found.kind == ("BIGINT" if beyond <= 0 else "STRING")
    assert (found.misfits.count if found.misfits else 0) == (len(bad) if beyond <= 0 else 0)


@pytest.mark.parametrize(
    ("values", "bad", "kind", "count"),
    [
        ([str(n) for n in range(60)], ["twelve"], "BIGINT", 1),
        ([f"{n}.5" for n in range(60)], ["", "12 kg", "1,500"], "DOUBLE", 2),
        ([f"{n},5" for n in range(60)], ["?!"], "DOUBLE", 1),
        ([f"1.{n:03d}" for n in range(60)], ["?!"], "STRING", 0),
        ([f"{n}" for n in range(60)], ["NA", " NA "], "BIGINT", 0),
        ([f"{n}" for n in range(60)], ["NA", "-", "null", "", "?"], "BIGINT", 0),
        ([f"2024-01-{n % 28 + 1:02d}" for n in range(60)], ["2024-02-30", "31.12.2024"], "DATE", 2),
        ([f"2024-01-01 00:00:{n:02d}" for n in range(60)], ["2024-01-01 25:00:00", "soon"], "TIMESTAMP", 2),
        (["true", "false"] * 30, ["perhaps"], "BOOLEAN", 1),
        ([True, False] * 30, ["perhaps"], "BOOLEAN", 1),
        (["NO"] * 97, ["SE", "DK"], "STRING", 0),  # countries
        (["Y", "N"] * 30, ["X"], "STRING", 0),
        # What Spark would cast to something stays text: nothing would say that it has another value in silver.
        ([str(n) for n in range(60)], ["007"], "STRING", 0),
        ([str(n) for n in range(60)], ["NaN"], "BIGINT", 0),
        ([str(n) for n in range(60)], ["1d"], "STRING", 0),
        ([str(n) for n in range(60)], ["."], "STRING", 0),
        # Spark takes away blanks of ASCII alone.
        ([str(n) for n in range(60)], ["7\u00a0"], "BIGINT", 1),
        ([f" {n}\t" for n in range(60)], ["\u20037"], "BIGINT", 1),
        ([f"{n}\u00a0" for n in range(60)], ["x"], "STRING", 0),
        ([f"2024-01-01 00:00:{n:02d}" for n in range(60)], ["T7"], "STRING", 0),
        ([f"{n},5" for n in range(60)], ["1.5"], "STRING", 0),
        (["true", "false"] * 30, ["yes"], "STRING", 0),
        ([f"2024-01-{n % 28 + 1:02d}" for n in range(60)], ["2024"], "STRING", 0),
        ([f"2024-01-{n % 28 + 1:02d}" for n in range(60)], ["2024-1-5"], "STRING", 0),
        ([f"2024-01-01 00:00:{n:02d}" for n in range(60)], ["12:30"], "STRING", 0),
        ([f"2024-01-01 00:00:{n:02d}" for n in range(60)], ["2024-01-01 10:30"], "TIMESTAMP", 0),
        # Nor is it another type where nearly all are of a kind that stays text.
        ([f"{n:03d}" for n in range(60)], ["x"], "STRING", 0),
        ([f"{n % 28 + 1}.12.2024" for n in range(60)], ["x"], "DATE", 1),
        ([f"12/{n % 28 + 1}/2024" for n in range(60)], ["x"], "DATE", 1),
        ([f"12/{n % 28 + 1}/2024" for n in range(60)], ["13/12/2024"], "STRING", 0),
        ([f"1/{n % 12 + 1}/2024" for n in range(60)], ["tbd"], "STRING", 0),  # which is the month?
        ([f"1-{n % 12 + 1}-2024 10:00" for n in range(60)], ["open"], "STRING", 0),
        ([{"a": 1}] * 60, ["x"], "STRING", 0),
    ],
)
def test_a_type_that_nearly_all_values_have_is_taken(
    tmp_path: Path, values: list[Any], bad: list[str], kind: str, count: int
) -> None:
    found = inferred(tmp_path, dirty(values, bad))
    assert (found.kind, found.misfits.count if found.misfits else 0) == (kind, count)
    if found.misfits:
        assert found.is_guess
        assert found.misfits.among == len(values) + count
        assert dirty(values, bad)[int(found.misfits.place.split()[1]) - 1] == found.misfits.example
    assert inferred(tmp_path / "zip", [str(n) for n in range(60)], "zip").kind == "STRING"


def test_misfits_are_told_with_their_place_and_written_without_their_value(tmp_path: Path) -> None:
    """Two files: the first bad value is in the second."""
    for name, bad in (("a", {}), ("b", {4: "Zebedee", 9: "Orion"})):
        rows = "".join(f"{n},{bad.get(n, n)},x{n}@b.org\n" for n in range(30))
        write(tmp_path, f"in/{name}.csv", "line,amount,email\n" + rows)
    made = new(tmp_path, f"t={tmp_path}/in")
    sql = (made.folder / "t.sql").read_text()
    assert "  -- a guess: 2 of 60 values are no BIGINT, as in record 5 of b.csv: NULL" in sql
    assert "  TRY_CAST(r.amount AS BIGINT) AS amount,\n" in sql
    assert "Zebedee" not in sql + json.dumps(made.facts())
    said = near_misses.sentences(made.tables[0], examples=True)
    assert said == [
        'amount: 58 of 60 values are BIGINT; the other 2 (as "Zebedee" in record 5 of b.csv): NULL, with the text in'
        " amount_text"
    ]


def test_addresses_of_mail_are_personal_wherever_they_are(tmp_path: Path) -> None:
    logins = "".join(f"{n},{'none' if n == 7 else f'a{n}@b.org'},{'x@y.org' if n == 9 else n}\n" for n in range(60))
    made = new(tmp_path, write(tmp_path, "t.csv", "line,login,amount\n" + logins))
    assert made.tables[0].guess.pii == ["login"]
    [said] = near_misses.sentences(made.tables[0], examples=True)
    assert said.startswith("amount: 59 of 60 values are BIGINT; the other one (")
    assert "@" not in said


def test_no_value_of_personal_data_is_told(tmp_path: Path) -> None:
    rows = "".join(f"{n},{'Zebedee' if n == 7 else f'2000-01-{n % 28 + 1:02d}'}\n" for n in range(30))
    made = new(tmp_path, write(tmp_path, "t.csv", "id,birthday\n" + rows))
    (sentence,) = near_misses.sentences(made.tables[0], examples=True)
    assert sentence.startswith("birthday: 29 of 30 values are DATE; the other one (record 8 of t.csv)")


def orders(copies: list[int] = [], conflicts: list[int] = [], none: list[int] = []) -> list[dict[str, Any]]:  # noqa: B006
    """100 orders, and behind them some of them again, the same or with another price; some without an id."""
    rows = [{"order_id": None if n in none else f"o{n}", "shop": f"s{n % 3}", "price": n} for n in range(100)]
    return [*rows, *(rows[n] for n in copies), *(rows[n] | {"price": -5} for n in conflicts)]


def of_orders(rows: list[dict[str, Any]]) -> str:
    lines = (",".join("" if value is None else str(value) for value in row.values()) for row in rows)
    return "order_id,shop,price\n" + "\n".join(lines) + "\n"


ORDERS_IN: dict[str, Any] = {
    "csv": of_orders,
    "jsonl": lambda rows: "".join(json.dumps(row) + "\n" for row in rows),
    "json": json.dumps,
    "parquet": columnar,
}


@pytest.mark.parametrize("sampled", [1000, 50], ids=["seen", "behind-the-sample"])
@pytest.mark.parametrize("ending", ORDERS_IN)
def test_keys_that_only_copies_of_rows_share_are_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, sampled: int
) -> None:
    monkeypatch.setattr("sluicegate.tools.scaffold.sniff.ROWS", sampled)
    for name, rows in (("1", orders()[:60]), ("2", orders([3, 3, 70])[60:])):
        write(tmp_path, f"in/{name}.{ending}", ORDERS_IN[ending](rows))
    made = new(tmp_path, f"orders={tmp_path}/in")
    assert definition.load("mine", at(tmp_path)).silver["orders"].keys == ["order_id"]
    text = (made.folder / "pipeline.yaml").read_text()
    assert "the same in no two different ones of all 103 rows of these files" in text
    assert "# 3 records are copies of an earlier one, equal in each column: set aside and counted.\n" in text
    assert f"# The first is record 41 of 2.{ending}.\n" in text
    assert near_misses.sentences(made.tables[0], examples=True) == [
        f"order_id: 3 rows are copies of an earlier row (as record 41 of 2.{ending}): set aside as duplicates,"
        " and counted"
    ]


@pytest.mark.parametrize("sampled", [1000, 50], ids=["seen", "behind-the-sample"])
@pytest.mark.parametrize("ending", ORDERS_IN)
def test_keys_that_different_rows_share_are_a_comment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, sampled: int
) -> None:
    monkeypatch.setattr("sluicegate.tools.scaffold.sniff.ROWS", sampled)
    made = new(tmp_path, write(tmp_path, f"orders.{ending}", ORDERS_IN[ending](orders([3], [4, 5]))))
    why = (
        "not unique: 3 of 103 rows would be set aside as duplicates, though 2 of them differ from the row that is kept,"
        f" as does record 102 of orders.{ending}"
    )
    assert f"    # keys: [order_id]  # {why}\n" in (made.folder / "pipeline.yaml").read_text()
    assert definition.load("mine", at(tmp_path)).silver["orders"].keys == []
    (sentence,) = near_misses.sentences(made.tables[0], examples=True)
    assert sentence == f"order_id: nearly keys, but {why}; pipeline.yaml has them as a comment"


def test_rows_without_a_key_are_told(tmp_path: Path) -> None:
    made = new(tmp_path, write(tmp_path, "orders.csv", of_orders(orders(none=[7, 8]))))
    why = "not proved: 2 of 100 rows have no value there that fits"
    assert made.tables[0].guess.no_keys == {("order_id",): why}
    assert near_misses.sentences(made.tables[0], examples=True) == [
        f"order_id: nearly keys, but {why}; pipeline.yaml has them as a comment"
    ]


def test_many_copies_or_unnamed_rows_make_no_keys(tmp_path: Path) -> None:
    made = new(tmp_path, write(tmp_path, "orders.csv", of_orders(orders([*range(30)]))))
    assert (made.tables[0].guess.keys, made.tables[0].guess.no_keys) == ([], {})
    rows = [f"thing {n},{n % 7}" for n in range(90)]
    made = new(tmp_path, write(tmp_path, "sold.csv", "\n".join(["what,number", *rows, rows[5]]) + "\n"), name="sold")
    why = "not unique: 1 of 91 rows would be set aside as duplicates, all of them copies of the row that is kept,"
    assert made.tables[0].guess.no_keys == {("what",): f"{why} as is record 91 of sold.csv"}


def test_values_that_do_not_fit_do_not_stop_keys_for_they_are_quarantined(tmp_path: Path) -> None:
    text = "id,n\n" + "".join(f"{'x' if n == 20 else n},1\n" for n in range(100))
    made = new(tmp_path, write(tmp_path, "t.csv", text))
    assert made.tables[0].guess.keys == ["id"]
    text = (made.folder / "pipeline.yaml").read_text()
    assert "the same in no two different ones of all 100 rows" in text
    assert "# 1 record has a value there that does not fit its type: quarantined.\n" in text


def test_copies_of_rows_with_a_value_that_does_not_fit_are_duplicates(tmp_path: Path) -> None:
    rows = orders([3, 9, 10])
    for row, price in ((rows[9], "nine"), (rows[101], "nine")):
        row["price"] = price
    made = new(tmp_path, write(tmp_path, "orders.csv", of_orders(rows)))
    assert made.tables[0].guess.proof is not None
    assert (made.tables[0].guess.keys, made.tables[0].guess.proof.surplus) == (["order_id"], 3)


def test_a_name_of_a_file_stays_in_its_comment(tmp_path: Path) -> None:
    made = new(
        tmp_path, "t=" + write(tmp_path, "a\ngold: {}\n.csv", of_orders(orders([], [4])).replace("7\n", "x\n", 1))
    )
    assert "\ngold: {}\n" not in "".join(file.read_text() for file in made.folder.iterdir())


def test_the_command_tells_near_misses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "orders.csv", of_orders(orders([3])).replace("s0,9\n", "s0,nine\n"))
    done = CliRunner().invoke(app, ["new", "sales", "--from", "orders.csv", "--land"])
    assert done.exit_code == 0, done.output
    assert '  near miss: price: 100 of 101 values are BIGINT; the other one ("nine" in record 10 of' in done.output
    assert "  near miss: order_id: 1 row is a copy of an earlier row (as record 101 of orders.csv)" in done.output
    assert CliRunner().invoke(app, ["plan", "sales"]).exit_code == 0


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_says_what_it_saw_and_what_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "orders.csv", ORDERS)
    write(tmp_path, "x.json", '{"a": 1}\n')
    done = CliRunner().invoke(app, ["new", "sales", "--from", "orders.csv", "x.json", "--land"])
    assert done.exit_code == 0, done.output
    assert "keys: order_id (a guess)" in done.output
    assert done.output.endswith(
        f'  {program()} run sales\n  {program()} sql "SELECT * FROM sales.orders_by_day LIMIT 10"\n'
    )
    assert CliRunner().invoke(app, ["plan", "sales"]).exit_code == 0


def test_the_command_says_it_to_programs_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "orders.csv", ORDERS)
    facts = json.loads(CliRunner().invoke(app, ["new", "sales", "--from", "orders.csv", "--json"]).output)
    assert facts["tables"][0]["keys"] == ["order_id"]
    assert facts["tables"][0]["columns"][4] == {
        "field": "quantity", "column": "quantity", "type": "BIGINT", "guess": False, "remark": "",
    }  # fmt: skip
    assert facts["next"][-2] == "sluicegate run sales"


# --- any file at all -------------------------------------------------------------------------------------------------

CELLS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["1", "007", "2.5", "1,5", "NA", "", "true", "2024-01-01", "2024-01-01 00:00:00", "a@b.org", "-", "x y"]
    ),
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(ODD),
)
NAMES = st.one_of(
    st.text(max_size=6), st.sampled_from([*ODD, "id", "name", "time", "a", "A"]), st.text(string.printable, max_size=6)
)


def refused_or_right(folder: Path, file: str, header: bool | None) -> None:
    """Makes a pipeline, which is read before it is there: a mistake in it is one of ours, and no refusal."""
    try:
        made = create("mine", [file], at(folder), land=True, header=header)
    except DefinitionError:
        raise
    except UserError:
        assert no_trace(folder)
    else:
        assert (made.folder / "pipeline.yaml").is_file()


@given(
    header=st.lists(NAMES, min_size=1, max_size=6),
    rows=st.lists(st.lists(CELLS, min_size=1, max_size=6), max_size=14),
    separator=st.sampled_from(",;\t|"),
    told=st.sampled_from([None, True, False]),
)
def test_any_csv_file_is_refused_or_makes_a_definition_that_loads(
    tmp_path_factory: pytest.TempPathFactory,
    header: list[str],
    rows: list[list[str]],
    separator: str,
    told: bool | None,
) -> None:
    folder = tmp_path_factory.mktemp("any")
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows([header, *rows])
    file = write(folder, "any.csv", text.getvalue().encode("utf-8", "surrogatepass"))
    refused_or_right(folder, file, told)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), CELLS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(NAMES, VALUES, max_size=5), min_size=1, max_size=6), st.booleans())
@example([{"0": [0, [0]]}], False)
@example([{"0": [{"a": 0}, 0, [0]]}, {"0": [[[0], 0.5]]}], True)
@example([{"0": None, "\x1f": [{}]}], True)
@example([{"0": None, "b\n: c": [{"a": 1}]}], True)
@example([{"data": [{}, {}]}], False)
def test_any_json_file_is_refused_or_makes_a_definition_that_loads(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], lines: bool
) -> None:
    folder = tmp_path_factory.mktemp("any")
    text = "\n".join(json.dumps(one) for one in records) if lines else json.dumps(records)
    refused_or_right(folder, write(folder, "any.json", text), None)


def test_a_wide_table_has_a_line_for_each_column(tmp_path: Path) -> None:
    names = [f"measure number {n}" for n in range(70)]
    text = f"{','.join(names)}\n" + f"{','.join(['x'] * 70)}\n" * 20
    made = new(tmp_path, write(tmp_path, "wide.csv", text))
    assert max(map(len, (made.folder / "pipeline.yaml").read_text().splitlines())) < 120
    loaded = definition.load("mine", at(tmp_path))
    assert len(loaded.bronze["wide_bronze"].hints) == 70
    assert loaded.silver["wide"].expectations["some_value"].condition.count("IS NOT NULL") == 70


def test_a_parquet_row_of_nothing_is_data(tmp_path: Path) -> None:
    """In a CSV file it may be what could not be read; a file with types has no such thing."""
    file = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"n": pa.array([None, 2.5, None]), "w": pa.array(["a", "b", None])}), file)
    new(tmp_path, str(file))
    assert definition.load("mine", at(tmp_path)).silver["t"].expectations == {}


def test_parquet_values_that_python_does_not_have(tmp_path: Path) -> None:
    file = tmp_path / "t.parquet"
    far, finer = 2**62, 1709287200_000000001
    columns = {
        "far": pa.array([far, -far, None], pa.timestamp("us")),
        "day": pa.array([2_932_897, 0, None], pa.date32()),
        "ns": pa.array([finer, finer - 1, None], pa.timestamp("ns")),
        "inside": pa.array([{"at": far}, {"at": 0}, None], pa.struct([("at", pa.timestamp("us", "UTC"))])),
        "t": pa.array([1, 2, None], pa.time64("ns")),
        "wide": pa.array([Decimal(10) ** 45, None, None], pa.decimal256(60, 2)),
    }
    parquet.write_table(pa.table(columns), file)
    made = new(tmp_path, str(file))
    kinds = {column.name: column.inferred_type.kind for column in made.tables[0].columns}
    assert kinds == {
        "far": "TIMESTAMP", "day": "DATE", "ns": "TIMESTAMP", "inside": "NESTED", "t": "STRING", "wide": "STRING",
    }  # fmt: skip
    definition.load("mine", at(tmp_path))
