"""Which files are looked at by executors, and what is done where these cannot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from sluicegate.bronze import file_headers
from sluicegate.spark import executors

pytestmark = pytest.mark.unit


def shout(path: str, sign: str) -> str:
    return path.upper() + sign


@pytest.mark.parametrize(("files", "jobs"), [(15, 0), (16, 0), (17, 1)])
def test_few_files_start_no_job(monkeypatch: pytest.MonkeyPatch, files: int, jobs: int) -> None:
    started: list[int] = []

    def there(_session: Any, module: str, name: str, paths: Sequence[str], given: Sequence[Any]) -> dict[str, Any]:
        assert (module, name) == (shout.__module__, "shout")
        started.append(len(paths))
        return {path: shout(path, *given) for path in paths[1:]}  # one executor has not this package

    monkeypatch.setattr(executors, "_map_on_executors", there)
    assert executors.FEW == 16
    paths = [f"p{number}" for number in range(files)]
    found = executors.map_files(None, shout, paths, "!")  # type: ignore[arg-type]
    assert found == {path: path.upper() + "!" for path in paths}
    assert len(started) == jobs


def test_footers_say_columns_and_records(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2, 3], "name": ["a", "b", None]})
    parquet.write_table(table, tmp_path / "a.parquet")
    orc.write_table(table, tmp_path / "a.orc")
    found = [file_headers.footer(str(tmp_path / f"a.{form}"), form) for form in ("parquet", "orc")]
    assert [told["records"] for told in found] == [3, 3]
    assert all("int64" in told["fields"] and "id" in told["fields"] for told in found)
    (tmp_path / "b.parquet").write_bytes(b"PAR1")
    assert "error" in file_headers.footer(str(tmp_path / "b.parquet"), "parquet")
    assert file_headers.footer(str(tmp_path / "gone.parquet"), "parquet")["error"].startswith("FileNotFoundError")


def test_a_header_is_what_the_first_line_says(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("\ufeff# by hand\n\n id ;na;me\n".encode())
    told = file_headers.header(str(tmp_path / "a.csv"), {"comment": "#", "ignoreleadingwhitespace": "true"}, ";")
    assert told["fields"][-2:] == ["na", "me"]
    (tmp_path / "b.csv.gz").write_bytes(b"no gzip")
    assert "error" in file_headers.header(str(tmp_path / "b.csv.gz"), {}, ",")


def test_a_quote_that_is_left_open_makes_no_names_of_records(tmp_path: Path) -> None:
    def fields(text: str, **options: str) -> object:
        (tmp_path / "c.csv").write_bytes(text.encode())
        return file_headers.header(str(tmp_path / "c.csv"), options, ",").get("fields")

    assert fields('a,"b\r\n1,2\r\n') == ["a", "b"]  # the header ends with its line
    assert fields(",,\n1,2,3\n") == ["", "", ""]  # and these are names, as Spark sees it
    assert fields('\n"a\n\nb","c"\n1,2\n', multiline="true") == ["a\n\nb", "c"]
    # Spark would take all of the file for its header, and read no record.
    assert fields('a,"b\n1,2\n', multiline="true") is None
