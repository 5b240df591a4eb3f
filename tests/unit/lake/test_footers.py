"""Footers of data files: rows, and whether a column has a value anywhere."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluicegate.lake import footers

pytestmark = pytest.mark.unit

NULLS = pa.array([None, None, None], pa.string())
COLUMNS = ("_rescued_data", "_corrupt_record")


def data_file(folder: Path, name: str, columns: dict[str, pa.Array], **options: object) -> str:
    pq.write_table(pa.table(columns), folder / name, **options)
    return name.replace(" ", "%20")


def test_values_in_any_row_group_of_any_file(tmp_path: Path) -> None:
    one = pa.array([None, None, "{}"], pa.string())
    ids = pa.array([1, 2, 3])
    empty = data_file(tmp_path, "a b.parquet", {"id": ids, "_rescued_data": NULLS, "_corrupt_record": NULLS})
    rescued = data_file(
        tmp_path, "b.parquet", {"id": ids, "_rescued_data": one, "_corrupt_record": NULLS}, row_group_size=1
    )
    corrupt = data_file(tmp_path, "c.parquet", {"_corrupt_record": one, "_rescued_data": NULLS})
    uri = str(tmp_path)
    assert footers.row_counts(uri, [empty, rescued, empty]) == {empty: 3, rescued: 3}
    assert not footers.may_have_values(uri, [empty], COLUMNS)
    assert footers.may_have_values(uri, [empty, rescued], COLUMNS)
    assert footers.may_have_values(uri, [corrupt], COLUMNS)
    assert not footers.may_have_values(uri, [corrupt], COLUMNS[:1])


def test_what_a_footer_does_not_tell_may_have_values(tmp_path: Path) -> None:
    nulls = {"_rescued_data": NULLS, "_corrupt_record": NULLS}
    uncounted = data_file(tmp_path, "a.parquet", nulls, write_statistics=False)
    mapped = data_file(tmp_path, "b.parquet", {"col-1": NULLS, "_corrupt_record": NULLS})
    nested = pa.array([{"_rescued_data": None}] * 3, pa.struct([("_rescued_data", pa.string())]))
    inside = data_file(tmp_path, "c.parquet", {"v": nested, "_corrupt_record": NULLS})
    for path in (uncounted, mapped, inside):
        assert footers.may_have_values(str(tmp_path), [path], COLUMNS)


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        footers.may_have_values(str(tmp_path), ["gone.parquet"], COLUMNS)
