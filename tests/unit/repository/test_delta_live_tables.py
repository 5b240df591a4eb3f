"""The pairs in ``docs/delta-live-tables.md``: ``sluicegate import`` makes the right one of the left one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluicegate.settings import Settings
from sluicegate.tools.migrate.create import Imported, create
from tests.conftest import ROOT

pytestmark = pytest.mark.unit

TEXT = (ROOT / "docs" / "delta-live-tables.md").read_text()
BLOCKS = r"((?:```\w+\n.*?^```\n\n?)+)"
PAIRS = re.findall(rf"^\*\*Databricks\*\*\n\n{BLOCKS}\*\*Sluicegate\*\*\n\n{BLOCKS}", TEXT, re.MULTILINE | re.DOTALL)
ELSEWHERE = (
    "CREATE STREAMING TABLE customers_landed AS SELECT * FROM STREAM read_files('s3://shop/c', format => 'json');\n"
)


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    folder = tmp_path_factory.mktemp("source")
    (folder / "shop.sql").write_text(ELSEWHERE + "".join(block for left, _ in PAIRS for block in blocks(left, "sql")))
    return create(folder / "shop.sql", "shop", Settings.of(str(folder / "lake"), str(folder), folder / "pipelines"))


def test_all_of_the_left_side_is_imported(imported: Imported) -> None:
    assert len(PAIRS) == 4
    assert (imported.error, imported.remarks, imported.is_complete) == (None, [], True)


@pytest.mark.parametrize("right", [right for _, right in PAIRS])
def test_the_right_side_is_what_import_makes_of_the_left(imported: Imported, right: str) -> None:
    written = yaml.safe_load((imported.folder / "pipeline.yaml").read_text())
    [shown] = blocks(right, "yaml")
    tables: dict[str, dict[str, Any]] = yaml.safe_load(shown)
    for layer, its in tables.items():
        for name, fields in its.items():
            assert written[layer][name] == fields
            queries = blocks(right, "sql")
            assert queries == ([(Path(imported.folder) / fields["sql"]).read_text()] if "sql" in fields else [])
