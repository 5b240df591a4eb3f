"""What is read of files without their records."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from sluicegate.bronze import file_headers

pytestmark = pytest.mark.unit


def test_a_column_of_intervals_has_values_and_one_of_NULLs_has_no_type(tmp_path: Path) -> None:
    """To pyarrow both are of the logical type UNKNOWN."""
    place = str(tmp_path / "a.parquet")
    duckdb.sql(f"COPY (SELECT INTERVAL 3 day AS i, NULL AS n, 1 AS k) TO '{place}' (FORMAT parquet)")
    footer = file_headers.footer(place, "parquet")
    assert (footer["refused"], footer["void"]) == (True, ["n"])
