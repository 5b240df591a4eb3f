"""Lines of pipeline.yaml for errors that only a run can find: a type that its data has, a value that stops a rule."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sluicegate.definition import yaml
from sluicegate.definition.tables.expectations import EXPECT_ALL

if TYPE_CHECKING:
    from sluicegate.definition.pipeline.model import Pipeline
    from sluicegate.errors import Where

_RULES = ("expectations", *EXPECT_ALL, "expect_table")


def locate_field(where: Where, pipeline: Pipeline, layer: str, table: str, field: str) -> Where:
    """Add file and line of a table's field or rule to a place, unless it has a file or the field is missing.

    Args:
        where: the place, which the error names.
        pipeline: the definition, whose file is read once more.
        layer: layer of the table.
        table: its name.
        field: name of the field, or of the rule.
    """
    file = pipeline.folder / "pipeline.yaml"
    if where.file is not None or not file.is_file():
        return where
    lines = yaml.read(file.read_text()).lines
    paths = [(layer, table, field), *((layer, table, of, field) for of in _RULES)]
    line = next((lines[path] for path in paths if path in lines), None)
    if line is None:
        return where
    return replace(where, file=str(file), line=line)
