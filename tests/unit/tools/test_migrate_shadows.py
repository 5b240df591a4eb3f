"""`sluicegate import`: names of a source that hide others, or that become the same name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate.settings import Settings
from sluicegate.tools.migrate.create import Imported, create

pytestmark = pytest.mark.unit

RAW = "CREATE STREAMING TABLE raw AS SELECT * FROM STREAM read_files('s3://b/raw', format => 'json');\n"


def imported(folder: Path, text: str, file: str = "source.sql") -> Imported:
    (folder / file).write_text(text)
    return create(folder / file, "mine", Settings.of(str(folder / "lake"), str(folder), folder / "pipelines"))


@pytest.mark.parametrize("name", ["orders", "x"])
def test_a_with_is_not_a_table_to_stream(tmp_path: Path, name: str) -> None:
    text = f"""{RAW}CREATE STREAMING TABLE orders AS SELECT id, ts FROM STREAM(raw);
    CREATE MATERIALIZED VIEW big AS WITH {name} AS (SELECT id * 10 AS id FROM raw WHERE id > 3) SELECT id FROM {name};
    CREATE MATERIALIZED VIEW reader AS SELECT id FROM big;"""
    pipeline = imported(tmp_path, text)
    assert pipeline.error is None
    assert list(pipeline.draft.silver) == ["orders"]
    assert list(pipeline.draft.gold) == ["big", "reader"]
    assert "STREAM" not in pipeline.draft.queries["big"]
    assert pipeline.is_complete


def test_a_table_beside_a_with_is_the_stream(tmp_path: Path) -> None:
    text = f"""{RAW}{RAW.replace("raw", "codes")}CREATE MATERIALIZED VIEW t
    (CONSTRAINT ok EXPECT (n > 0) ON VIOLATION DROP ROW)
    AS WITH x AS (SELECT id, n FROM codes) SELECT raw.id, n FROM raw JOIN x USING (id)"""
    assert "FROM STREAM(raw)" in imported(tmp_path, text).draft.queries["t"]
