"""Writes docs/reference.md, docs/reference/ and docs/pipeline.schema.json from the program: ``make docs``.

Commands come from the typer app, jobs from their argument parser, fields from the definition's models and what their
docstrings say, errors from their classes. ``--check`` writes nothing and exits 1 if a file is not as it would be made.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer.main
from pydantic import BaseModel, BeforeValidator
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from scripts import made_files
from scripts.reference_cases import cases
from scripts.reference_errors import environment, errors_page
from scripts.reference_operators import operators_page
from scripts.reference_reader_options import reader_options_page
from scripts.reference_text import attributes as _attributes
from scripts.reference_text import code as _code
from scripts.reference_text import kind_of as _kind
from scripts.reference_text import prose as _prose
from scripts.reference_text import slug as slug
from scripts.reference_text import split_help as _apart
from scripts.reference_text import summary as _summary
from scripts.reference_text import table as _table
from sluicegate.cli import app
from sluicegate.definition import fields as definition_fields
from sluicegate.definition.pipeline import header
from sluicegate.definition.pipeline import model as pipeline
from sluicegate.definition.tables import table
from sluicegate.flow import report
from sluicegate.jobs import catalog, layer_job, maintain, run_job, verify_job
from sluicegate.jobs import continuous as of_runs
from sluicegate.jobs import copy_into as of_copies
from sluicegate.jobs import reload as of_resets
from sluicegate.jobs import replay as of_replays
from sluicegate.tools.testing import job as of_cases

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SCHEMA = "pipeline.schema.json"
# Headings of the fields of a part, and of those that tables of all layers have.
FIELDS = ("field", "type", "default", "meaning")
EVERY_TABLE = "fields of every table"
# Of an option that at least one in so many commands has, the page has one row for all of them.
SHARE = 4
MADE = "*`make docs` writes this page from the program itself: edit the docstrings and help texts that it shows.*"


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the files or, with ``--check``, compares them; returns the exit code."""
    check = made_files.is_check("python -m scripts.reference", main.__doc__, argv)
    stale = {str(file.relative_to(ROOT)): (file, text) for file, text in outdated_pages().items()}
    if not stale:
        print("the reference is up to date")
    return made_files.write_stale(stale, "the program says", check=check)


def outdated_pages() -> dict[Path, str]:
    """The files that are not as they would be made, each with the text that it should have."""
    made = {DOCS / name: text for name, text in pages().items()}
    made[DOCS / SCHEMA] = json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
    return made_files.outdated_files(made)


def pages() -> dict[str, str]:
    """The pages of the reference, by their paths below docs."""
    found = {
        "reference.md": _overview(),
        "reference/commands.md": ["# Commands", *_commands(), *_jobs()],
        "reference/pipeline-yaml.md": ["# pipeline.yaml", *_definition(schema()), *cases()],
        "reference/reader-options.md": ["# Reader options", *reader_options_page()],
        "reference/errors.md": ["# Errors", *errors_page()],
        "reference/airflow-operators.md": ["# Airflow operators", *operators_page()],
        "reference/environment.md": ["# Environment variables", *environment(_app())],
    }
    return {name: "\n\n".join([*blocks, MADE]) + "\n" for name, blocks in found.items()}


def _overview() -> Iterable[str]:
    """The page that leads to the others."""
    yield "# Reference"
    yield "## Commands"
    rows = []
    for name, command in _app().items():
        says = _prose(inspect.cleandoc(command.help).split("\n\n")[0])
        rows.append([f"[sluicegate {name}](reference/commands.md#{slug(f'sluicegate {name}')})", says])
    yield _table(["command", "what it does"], rows)
    yield "The [jobs](reference/commands.md#jobs) that commands and the DAG submit can be submitted by hand, too."
    yield "## The definition"
    yield (
        "[Every field of `pipeline.yaml`](reference/pipeline-yaml.md), and the same as"
        f" [JSON Schema]({SCHEMA}) for editors."
    )
    yield "## Files"
    yield (
        "[Reader options](reference/reader-options.md) by format, with defaults."
        " [How the values of each file format are read](reference/file-formats.md), and what cannot be read."
    )
    yield "## Cases"
    yield "[Every field of a test case](reference/pipeline-yaml.md#cases), which `sluicegate test` runs."
    yield "## Airflow"
    yield "[Operators and sensor](reference/airflow-operators.md) with their parameters, for DAGs of your own."
    yield "## Errors"
    yield (
        "[Every error code with causes and remedies](reference/errors.md), and the"
        " [exit codes](reference/errors.md#exit-codes). Offline: `sluicegate help SG208`."
    )
    yield "## Environment"
    yield "[Every environment variable](reference/environment.md) that commands and jobs read."


# Commands and jobs


def _app() -> dict[str, Any]:
    group: Any = typer.main.get_command(app.app)
    return dict(group.commands)


def _commands() -> Iterator[str]:
    yield _prose(str(app.app.info.help))
    commands = _app()
    rows = {name: _command_rows(command) for name, command in commands.items()}
    shared = shared_rows(rows.values())
    headings = ["argument or option", "meaning", "default", "environment"]
    yield "## Options of most commands"
    yield _table(headings, shared)
    for name, command in commands.items():
        words = [(option.metavar or option.name).upper() for option in command.params if not _is_option(option)]
        yield f"## sluicegate {name}"
        yield f"```\nsluicegate {' '.join([name, *words])} [OPTIONS]\n```"
        for paragraph in inspect.cleandoc(command.help).split("\n\n"):
            label, _, line = paragraph.partition("Example: ")
            yield f"Example: {_code(line)}" if line and not label else _prose(paragraph)
        yield from _options(headings, rows[name], shared, "options of most commands")


def _command_rows(command: Any) -> list[list[str]]:
    hints = get_type_hints(command.callback)
    return [_option(option, hints[option.name]) for option in command.params]


def shared_rows(tables: Collection[Sequence[Sequence[str]]]) -> list[list[str]]:
    """The rows that one in ``SHARE`` tables has, word for word, in the order of their first appearance."""
    tables_with = Counter(tuple(row) for rows in tables for row in rows)
    return [list(row) for row, count in tables_with.items() if SHARE * count >= len(tables)]


def _options(
    headings: Sequence[str], rows: Sequence[Sequence[str]], shared: Collection[Sequence[str]], heading: str
) -> Iterator[str]:
    """A table of the rows that others do not share, and a line with the names of those that they do."""
    own = [row for row in rows if row not in shared]
    if own:
        yield _table(headings, own)
    if names := _names(row for row in rows if row in shared):
        yield f"[Shared](#{slug(heading)}): {names}."


def _is_option(option: Any) -> bool:
    return bool(option.opts[0].startswith("-"))


def _option(option: Any, hint: Any) -> list[str]:
    meaning, variable, default = _apart(option.help)
    if not _is_option(option):
        return [_code((option.metavar or option.name).upper()), meaning, "required" * option.required, variable]
    if option.is_flag:
        return [_code(", ".join([*option.opts, *option.secondary_opts])), meaning, default, variable]
    kinds = {int: "INTEGER", float: "NUMBER", str: "TEXT"}
    parts = [inner for one in get_args(hint) or (hint,) for inner in (get_args(one) or (one,))]  # list[str] | None
    kind = next(kinds[one] for one in parts if one in kinds)
    if getattr(option, "min", None) is not None:
        meaning += f" At least {option.min}."
    if not default and option.default not in (None, []):
        default = _code(option.default)
    return [_code(f"{', '.join(option.opts)} {kind}"), meaning, default, variable]


def _jobs() -> Iterator[str]:
    layers = table.LAYERS
    headings = ["option", "meaning", "default", "environment"]
    yield "## Jobs"
    yield "```\n" + "".join(f"spark-submit spark_jobs/{name}.py --pipeline NAME [OPTIONS]\n" for name in layers) + "```"
    last = f"`{report.REPORT} {{json}}` or `{report.ERROR} {{json}}`"
    yield (
        f"Each runs one layer of one pipeline, by itself. Started by hand, its last line is {last}. To a command or a"
        " task that starts it, it reports the same on [a channel](../design/reports.md)."
    )
    layer_rows = {layer: list(_job_rows(layer_job.layer_parser(layer))) for layer in layers}
    tools = {
        "run": (
            "run", "Each layer that ends well sends its own report. An error is the last message.", run_job.parser(),
        ),
        "continuous": ("run", "Submitted with `--continuous`.", of_runs.parser()),
        "copy_into": ("copy-into", "", of_copies.parser()),
        "replay": ("replay", "Submitted with `--follow`.", of_replays.parser()),
        "reload": ("reload", "", of_resets.parser("reload")),
        "maintain": ("maintain", "", maintain.parser()),
        "verify": (
            "status",
            f"Submitted with `--verify` for silver and gold, and by the DAG `NAME_verify` for all layers. A message"
            f" `{report.FINDING} {{json}}` reports each finding. Exit code 3 if something is not right.",
            verify_job.parser(),
        ),
        "catalog": ("catalog", "", catalog.parser()),
        "cases": ("test", f"A message `{report.CASE} {{json}}` reports each case.", of_cases.parser()),
        "reset": ("reset", "It does not ask for confirmation.", of_resets.parser("reset")),
    }  # fmt: skip
    rows = {name: list(_job_rows(parser)) for name, (_, _, parser) in tools.items()}
    shared = shared_rows([*layer_rows.values(), *rows.values()])
    heading = "options of most jobs"
    scripts: dict[str, list[str]] = {}
    for layer, of_layer in layer_rows.items():
        text = "\n\n".join(_options(headings, of_layer, shared, heading))
        scripts.setdefault(text, []).append(_code(f"{layer}.py"))
    for text, names in scripts.items():
        yield f"Of {' and '.join(names)}:"
        yield text
    yield f"### {heading.capitalize()}"
    yield _table(headings, shared)
    yield "### Further jobs"
    yield "```\nspark-submit spark_jobs/tools/SCRIPT.py --pipeline NAME [OPTIONS]\n```"
    yield (
        "Commands submit these. An option that the command has, too, means the same; arguments of the command are"
        " options here, such as `--table`."
    )
    own = {name: [row for row in rows[name] if row not in shared] for name in tools}
    yield _table(
        ["script", "submitted by", "its own options", ""],
        [
            [_code(f"{name}.py"), f"[{command}](#{slug(f'sluicegate {command}')})", _names(own[name]), remark]
            for name, (command, remark, _) in tools.items()
        ],
    )
    yield "Options that the commands do not have:"
    yield _table(
        ["script", *headings],
        [
            [_code(f"{name}.py"), *row]
            for name, (command, _, _) in tools.items()
            for row in own[name]
            if _name(row) not in _as_options(_app()[command])
        ],
    )


def _name(row: Sequence[str]) -> str:
    """Name of the option that a row describes, without its value."""
    return row[0].strip("`").split()[0]


def _names(rows: Iterable[Sequence[str]]) -> str:
    return ", ".join(_code(_name(row)) for row in rows)


def _as_options(command: Any) -> set[str]:
    """Options of a command, and its arguments as the options that a job has for them."""
    options = {opt for option in command.params for opt in option.opts if _is_option(option)}
    return options | {f"--{option.name}" for option in command.params if not _is_option(option)}


def _job_rows(parser: argparse.ArgumentParser) -> Iterator[list[str]]:
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        meaning, variable, default = _apart(action.help or "")
        if action.default is not None:
            default = _code(action.default)
        name = f"{action.option_strings[0]} {action.metavar or action.dest.upper()}"
        yield [_code(name), meaning, "required" if action.required else default, variable]


# The definition


class _Inputs(GenerateJsonSchema):
    """The schema of what may be written, where that is more than the type that it becomes."""

    schema_dialect = "http://json-schema.org/draft-07/schema#"  # what editors know best; nothing newer is used

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        function = schema["function"]["function"]
        if function in _validators(definition_fields.Text):
            return {"type": ["string", "number", "boolean"]}
        if function in _validators(definition_fields.Bytes):
            size = r"^\s*[0-9]+\s*[kmgtKMGT]?[iI]?[bB]?\s*$"
            return {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": size}]}
        return super().function_before_schema(schema)


def _validators(alias: Any) -> list[Any]:
    return [part.func for part in get_args(alias) if isinstance(part, BeforeValidator)]


def schema() -> dict[str, Any]:
    """The JSON Schema of pipeline.yaml, with what the models' docstrings say."""
    made = pipeline.Pipeline.model_json_schema(schema_generator=_Inputs)
    parts = made["$defs"]
    for name, part in [("Pipeline", made), *parts.items()]:
        model = getattr(pipeline, name, None) or getattr(header, name)
        part["description"] = _summary(model)
        part["properties"] = dict(_describe_fields(model, part["properties"]))
    head = {"$schema": _Inputs.schema_dialect, "title": "pipeline.yaml of Sluicegate"}
    tidy: dict[str, Any] = _tidy_schema({key: value for key, value in made.items() if key != "$defs"})
    return head | tidy | {"$defs": {name: _tidy_schema(part) for name, part in parts.items()}}


def _describe_fields(model: type[BaseModel], properties: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    said = _attributes(model)
    for name, field in model.model_fields.items():
        if name not in said:
            raise LookupError(f"the docstring of {model.__name__} says nothing of {name}")
        shown = field.alias or name
        yield shown, {"description": said[name], **properties[shown]}


def _tidy_schema(node: Any, *, fields: bool = False) -> Any:
    """Without pydantic's titles, which say a name again, and its ``ge``, which is no word of JSON Schema.

    Args:
        node: a schema or a piece of one.
        fields: the keys of ``node`` are names of fields, and not words of JSON Schema.
    """
    if isinstance(node, list):
        return [_tidy_schema(one) for one in node]
    if not isinstance(node, dict):
        return node
    unwanted = () if fields else ("title", "ge")
    return {
        key: _tidy_schema(value, fields=key == "properties" and not fields)
        for key, value in node.items()
        if key not in unwanted and not (key == "default" and not fields and value is None)
    }


def _definition(whole: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "`pipelines/NAME/pipeline.yaml`. In the `path` and the `options` of a bronze table, `${landing}`, `${lake}` and"
        " `${NAME}` of the environment are replaced, and there, in SQL and in conditions `${param:NAME}` of `params`,"
        " as a literal. `${NAME}` may stand in the `lake`, the `landing` and the `master` of a target, too; there is no"
        " other templating. `sluicegate plan NAME` tells every mistake at once."
    )
    yield (
        "Editors complete and check it by [pipeline.schema.json](../pipeline.schema.json). Those that know the YAML"
        " language server take it from the first line of the file:"
    )
    yield "```yaml\n# yaml-language-server: $schema=../../docs/pipeline.schema.json\n```"
    parts = whole["$defs"]
    shared = _shared_fields(parts)
    yield from _part("", whole, parts, shared, {})
    yield f"## {EVERY_TABLE.capitalize()}"
    yield _table(FIELDS, shared)


def _shared_fields(parts: Mapping[str, Any]) -> list[list[str]]:
    """The rows that tables of all layers have, word for word."""
    models = {"bronze.NAME": "BronzeTable", "silver.NAME": "SilverTable", "gold.NAME": "GoldTable"}
    bronze, silver, gold = (_field_rows(parts[model], place)[0] for place, model in models.items())
    return [row for row in bronze if row in silver and row in gold]


def _part(
    place: str, part: Mapping[str, Any], parts: Mapping[str, Any], shared: Collection[Sequence[str]],
    described: dict[str, str],
) -> Iterator[str]:  # fmt: skip
    """A part of the definition with its fields, and then the parts in it.

    Args:
        place: where it is.
        part: its schema.
        parts: the schemas of all parts, by their models.
        shared: rows of the fields that every table has.
        described: fields that the page has already, each with its place; what has the same fields refers to it.
    """
    yield f"## {place or 'Top level'}"
    fields = json.dumps([part["description"], part["properties"]])
    if fields in described:
        yield f"The fields of [{described[fields]}](#{slug(described[fields])})."
        return
    described[fields] = place
    yield str(part["description"])
    rows, inner = _field_rows(part, place)
    yield from _options(FIELDS, rows, shared, EVERY_TABLE)
    for at, model in inner.items():
        yield from _part(at, parts[model], parts, shared, described)


def _field_rows(part: Mapping[str, Any], place: str) -> tuple[list[list[str]], dict[str, str]]:
    """A row for each field of a part, and the models of the parts below it by their places."""
    rows, inner = [], {}
    for name, field in part["properties"].items():
        default = field.get("default")
        shown = "" if default in (None, "", [], {}) else _code(json.dumps(default).strip('"'))
        at = f"{place}.{name}" if place else name
        kind, below = _kind(field, at)
        inner.update(below)
        needed = name in part.get("required", ())
        rows.append([_code(name), kind, "required" if needed else shown, str(field["description"])])
    return rows, inner


if __name__ == "__main__":
    sys.exit(main())
