"""Lines of pipeline.yaml for errors that a run finds."""

from __future__ import annotations

import pytest

from sluicegate.definition.reading.places import locate_field
from sluicegate.errors import Where
from tests.conftest import Workspace

pytestmark = pytest.mark.unit

DEFINITION = """name: heart_rate
bronze:
  raw: {path: "${landing}/raw", format: json}
silver:
  t:
    sql: SELECT id, n FROM STREAM(raw)
    keys: [id]
    expect_all: {some: n > 0}
    expectations:
      few: {expect: n < 9}
    expect_table:
      once:
        unique: [n]
"""


@pytest.mark.parametrize(
    ("field", "line"), [("keys", 7), ("sql", 6), ("some", 8), ("few", 10), ("once", 12), ("other", None)]
)
def test_fields_and_rules_have_lines(workspace: Workspace, field: str, line: int | None) -> None:
    workspace.define(DEFINITION)
    found = locate_field(Where(table="t"), workspace.definition, "silver", "t", field)
    file = str(workspace.folder / "pipelines/heart_rate/pipeline.yaml")
    assert found == (Where("t", file, line) if line else Where("t"))


def test_what_has_a_place_keeps_it(workspace: Workspace) -> None:
    workspace.define(DEFINITION)
    own, definition = Where(table="t", file="t.sql"), workspace.definition
    assert locate_field(own, definition, "silver", "t", "keys") == own
    (workspace.folder / "pipelines/heart_rate/pipeline.yaml").unlink()
    assert locate_field(Where(table="t"), definition, "silver", "t", "keys") == Where(table="t")
