"""Lists of files that another pipeline has read: their formats, and which file of a landing folder a path means."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from sluicegate.errors import UserError
from sluicegate.landing.chosen import listed_files
from sluicegate.landing.chosen.listed_files import Landing, prefixes

pytestmark = pytest.mark.unit

PATHS = ["dbfs:/mnt/x/a.json", "dbfs:/mnt/x/b, c.json"]


def written(folder: Path, name: str, text: str | bytes) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.txt", "\n".join(PATHS)),
        ("list", "\r\n".join([*PATHS, "", PATHS[0], ""])),
        ("list.csv", 'path\ndbfs:/mnt/x/a.json\n"dbfs:/mnt/x/b, c.json"\n'),
        ("list.CSV", '\ufeffPATH,size\r\ndbfs:/mnt/x/a.json,1\r\n"dbfs:/mnt/x/b, c.json",2\r\n'),
        ("no_header.csv", 'dbfs:/mnt/x/a.json\n"dbfs:/mnt/x/b, c.json"\n'),
        ("list.csv.gz", gzip.compress(b'path\ndbfs:/mnt/x/a.json\n"dbfs:/mnt/x/b, c.json"\n', mtime=0)),
        ("list.json", json.dumps([{"file_path": path, "state": "processed"} for path in PATHS])),
        ("lines.json", "\n".join(json.dumps({"path": path}) for path in PATHS)),
        ("list.ndjson", "\n".join(json.dumps({"the only one": path}) for path in PATHS)),
        ("texts.json", json.dumps(PATHS)),
    ],
)
def test_a_list_is_read_in_the_formats_that_people_get_it_in(tmp_path: Path, name: str, text: str | bytes) -> None:
    assert listed_files.paths(written(tmp_path, name, text)) == PATHS


def test_a_folder_that_spark_has_written_is_a_list(tmp_path: Path) -> None:
    for number, path in enumerate(PATHS):
        table = pa.table({"path": [path], "size": [1]})
        (tmp_path / "export").mkdir(exist_ok=True)
        parquet.write_table(table, tmp_path / f"export/part-0000{number}.snappy.parquet")
    written(tmp_path, "export/_SUCCESS", "")
    written(tmp_path, "export/_committed_1", '{"added":["part-00000.snappy.parquet"]}')
    written(tmp_path, "export/.part-00000.snappy.parquet.crc", b"\x00\xff")
    assert listed_files.paths(str(tmp_path / "export")) == PATHS


def test_a_name_without_a_folder_is_no_header(tmp_path: Path) -> None:
    """The first file of a list must not be lost: it would be read a second time."""
    assert listed_files.paths(written(tmp_path, "list.csv", "a.json\nb.json\n")) == ["a.json", "b.json"]


@pytest.mark.parametrize(
    ("name", "text", "column", "said"),
    [
        ("list.csv", "path,file_path\na,b\n", None, "--column"),
        ("list.csv", "name,size\na,1\n", None, "--column"),
        ("list.csv", "path,size\na,1\n", "files", "column files"),
        ("list.csv", "size,path\n1,a\n2\n", None, "record 3"),
        ("list.json", '[{"path": "a"}, {"path": null}]', None, "record 2"),
        ("list.json", '{"path": "a"', None, "cannot be read"),
        ("list.parquet", "no parquet", None, "cannot be read"),
        ("list.txt", b"\xff\xfe\x00", None, "cannot be read"),
        ("list.txt", "\n \n", None, "empty"),
    ],
)
def test_a_list_that_is_not_clear_is_refused(
    tmp_path: Path, name: str, text: str | bytes, column: str | None, said: str
) -> None:
    with pytest.raises(UserError) as refused:
        listed_files.paths(written(tmp_path, name, text), column)
    assert said in refused.value.for_people()


def test_a_list_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        listed_files.paths(str(tmp_path / "list.csv"))


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("s3://bucket/land/x/a.json", ("a.json",)),
        ("s3a://bucket/land/x/day=1/a.json", ("day=1/a.json",)),
        ("s3n://bucket/land/x/a%20b.json", ("a%20b.json", "a b.json")),
        ("s3://other/land/x/a.json", ()),
        ("s3://bucket/land/xx/a.json", ()),
        ("dbfs:/mnt/raw/a.json", ("a.json",)),
        ("dbfs:///mnt/raw/a.json", ("a.json",)),
        ("dbfs:/mnt/raw2/a.json", ("deeper/a.json",)),
        ("dbfs:/mnt/rawer/a.json", ()),
        ("/mnt/raw/a.json", ()),
        ("day=1/a.json", ("day=1/a.json",)),
        ("../a.json", ("../a.json",)),
    ],
)
def test_names_below_a_landing_folder_on_s3(listed: str, names: tuple[str, ...]) -> None:
    mapped = prefixes(["dbfs:/mnt/raw/", "dbfs:/mnt/raw2"], ["s3a://bucket/land/x", "s3://bucket/land/x/deeper/"])
    assert Landing("s3a://bucket/land/x", "s3://bucket/land/x/", mapped).names_below(listed) == names


def test_names_below_a_landing_folder_on_disk(tmp_path: Path) -> None:
    (tmp_path / "disk/x").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    landing = Landing(f"{tmp_path}/link/x", f"{tmp_path}/link/x")
    for folder in (f"{tmp_path}/link", f"{tmp_path}/disk", f"file:{tmp_path}/disk", f"file://{tmp_path}/link/./"):
        assert landing.names_below(f"{folder}/x/a%20b.json") == ("a%20b.json", "a b.json")
    (tmp_path / "second").symlink_to(tmp_path / "disk/x")
    assert landing.names_below(f"{tmp_path}/second/a.json") == ("a.json",)
    assert landing.names_below(f"{tmp_path}/elsewhere/a.json") == ()


def test_the_longest_prefix_counts(tmp_path: Path) -> None:
    mapped = prefixes(["/old", "/old/deep"], [str(tmp_path / "a"), str(tmp_path / "b")])
    assert Landing(f"{tmp_path}/b", f"{tmp_path}/b", mapped).names_below("/old/deep/x.json") == ("x.json",)
    assert Landing(f"{tmp_path}/a", f"{tmp_path}/a", mapped).names_below("/old/deep/x.json") == ()


@pytest.mark.parametrize(("former", "present"), [(["a"], []), (["a"], ["b", "c"]), ([""], ["b"]), (["a"], [""])])
def test_prefixes_come_in_pairs(former: list[str], present: list[str]) -> None:
    with pytest.raises(UserError, match="prefix"):
        prefixes(former, present)
