"""``sluicegate settings``."""

from __future__ import annotations

from typing import Annotated, Any

from sluicegate.cli.options import PLACES, JsonOption, show_json, show_table
from sluicegate.console import say
from sluicegate.project_file import FILE, SETTINGS, may_have_secret
from sluicegate.settings import SourcedValue, resolve_settings


def settings(
    lake: Annotated[str | None, PLACES["lake"]] = None,
    landing: Annotated[str | None, PLACES["landing"]] = None,
    pipelines: Annotated[str | None, PLACES["pipelines"]] = None,
    master: Annotated[str | None, PLACES["master"]] = None,
    target: Annotated[str | None, PLACES["target"]] = None,
    as_json: JsonOption = False,
) -> None:
    """Show each setting that commands use here, and where its value comes from.

    Example: sluicegate settings --target prod
    """
    flags = {"lake": lake, "landing": landing, "pipelines": pipelines, "master": master, "target": target}
    resolved = resolve_settings(flags)
    if as_json:
        file = resolved.project and str(resolved.project.file)
        values = [{"name": name, **_facts(name, value)} for name, value in resolved.values.items()]
        show_json({"file": file, "settings": values})
        return
    rows = [[name, _shown(value), _source(name, value)] for name, value in resolved.values.items()]
    show_table(["setting", "value", "from"], rows)
    say("")
    if resolved.project is None:
        say(f"no {FILE} here or in a folder above")
    else:
        say(f"file: {resolved.project.file}")


def _facts(name: str, value: SourcedValue) -> dict[str, Any]:
    return {
        "value": _shown(value) or None,
        "source": value.source,
        "variable": SETTINGS[name].variable,
        "file": value.file and str(value.file),
        "line": value.line,
    }


def _shown(value: SourcedValue) -> str:
    if may_have_secret(value.text):
        return "(hidden: it may have a secret)"
    return value.text


def _source(name: str, value: SourcedValue) -> str:
    if value.source == "flag":
        return f"--{name}"
    if value.source == "environment":
        return value.variable
    if value.file is None:
        return value.source
    if value.line is None:
        return value.file.name
    return f"{value.file.name}:{value.line}"
