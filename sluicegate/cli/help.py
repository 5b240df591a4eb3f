"""``sluicegate help``: explain error codes and commands offline."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sluicegate.cli import error_help
from sluicegate.cli.options import JsonOption, show_json, show_table
from sluicegate.console import say
from sluicegate.errors import UserError, error_type


def help_(
    context: typer.Context,
    topic: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC", help="An error code or a command; without it, all codes are listed."),
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """Explain an error code, as in `error[SG208]`, or show the help of a command.

    Example: sluicegate help SG208
    """
    group: Any = context.find_root().command
    commands = group.commands
    code = (topic or "").upper()
    if topic is None:
        _codes(as_json)
    elif code in error_help.EXPLANATIONS:
        _show_explanation(code, as_json)
    elif topic in commands:
        with typer.Context(commands[topic], info_name=topic, parent=context.parent) as inner:
            say(*commands[topic].get_help(inner).split("\n"))
    else:
        from sluicegate.definition.fields import suggest_name

        hint = suggest_name(topic, [*commands, *error_help.EXPLANATIONS]) or "`sluicegate help` lists the codes"
        raise UserError(f"no help for {topic}", hint=hint)


def _codes(as_json: bool) -> None:
    if as_json:
        show_json(list(map(_facts, error_help.EXPLANATIONS)))
        return
    rows = [[code, error_type(code).__name__, error_help.EXPLANATIONS[code].means] for code in error_help.EXPLANATIONS]
    show_table(["code", "error", "meaning"], rows)
    say("", "sluicegate help CODE has causes and remedies, sluicegate --help the commands")


def _show_explanation(code: str, as_json: bool) -> None:
    if as_json:
        show_json(_facts(code))
    else:
        say(*error_help.explain_code(code, error_type(code).__name__, error_type(code).exit_code).split("\n"))


def _facts(code: str) -> dict[str, Any]:
    facts = error_help.EXPLANATIONS[code]
    return {"code": code, "error": error_type(code).__name__, "exit_code": error_type(code).exit_code, **vars(facts)}
