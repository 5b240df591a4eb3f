"""What docs/reference/pipeline-yaml.md says of the cases that test a pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from scripts.reference_text import attributes, code, kind_of, slug, summary, table
from sluicegate.tools.testing import model as case_model


def cases() -> Iterator[str]:
    """The part of the reference about cases."""
    yield "## Cases"
    yield (
        "`pipelines/NAME/tests/*.yaml`, which `sluicegate test NAME` runs. At the top of a file stands `cases`: names,"
        " each with a case. [How to test a pipeline](../howto/testing-pipelines.md) shows some."
    )
    said = attributes(case_model.Step)
    models: dict[str, type[BaseModel]] = {
        "A case": case_model.Fields,
        "given.TABLE": case_model.Given,
        "expect.TABLE": case_model.Expected,
    }
    for place, model in models.items():
        yield f"### {place}"
        yield summary(model)
        said |= attributes(model)
        properties = model.model_json_schema()["properties"]
        rows = []
        for name, field in model.model_fields.items():
            described, shown = properties[field.alias or name], field.alias or name
            default = described.get("default")
            required = "required" if field.is_required() else "" if default in (None, "") else code(default)
            rows.append([code(shown), _case_kind(shown, described), required, said[name]])
        yield table(["field", "type", "default", "meaning"], rows)


def _case_kind(name: str, field: Mapping[str, Any]) -> str:
    """The type of a field of a case; rows come in several forms, and their reader has no model."""
    if name in ("given", "expect"):
        return f"names, each with rows or [fields](#{slug(f'{name}.TABLE')})"
    if name == "steps":
        return "list of cases without steps"
    return kind_of(field, "")[0] if {"type", "anyOf"} & field.keys() else "rows"
