"""What docs/reference/errors.md and docs/reference/environment.md say."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from scripts.reference_text import attributes, code, prose, split_help, table
from scripts.variables import VARIABLES
from sluicegate import errors
from sluicegate.cli.error_help import EXPLANATIONS
from sluicegate.jobs import layer_job
from sluicegate.project_file import SETTINGS
from sluicegate.settings import Settings

# The codes by their exit code, in the order in which people should look.
GROUPS = {2: "Mistakes to correct", 3: "Data that violates a rule or a test", 1: "Everything else"}


def error_classes() -> list[type[errors.SluicegateError]]:
    """Every class of error, in the order of their codes."""
    known = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.SluicegateError)]
    return sorted(known, key=lambda one: one.code)


def errors_page() -> Iterator[str]:
    """The parts of the page of errors: how they are shown, exit codes, and each code under a heading of its own."""
    keys = ", ".join(code(key) for key in errors.SluicegateError("").as_dict())
    yield (
        "People read `error[CODE]: what happened`, then the place, the cause, what to do, and the command that explains"
        ' the code offline: `sluicegate help CODE`. Programs get, with `--json`, `{"error": {…}}` with'
        f" {keys}; {_link(errors.DefinitionError)} adds `mistakes`, all at once."
    )
    yield from _exit_codes()
    for exit_code, heading in GROUPS.items():
        yield f"## {heading}"
        for one in error_classes():
            if one.exit_code == exit_code:
                yield from _error(one)


def _error(one: type[errors.SluicegateError]) -> Iterator[str]:
    """A code: its heading is the code alone, so that its address is short."""
    found = EXPLANATIONS[one.code]
    yield f"### {one.code}"
    yield f"`{one.__name__}`, exit code {one.exit_code}. {found.means}"
    yield "Causes:"
    yield "\n".join(f"- {cause}" for cause in found.causes)
    yield "Remedies:"
    yield "\n".join(f"- {remedy}" for remedy in found.remedies)
    if found.page:
        yield f"[docs/{found.page}](../{found.page})"


def _link(one: type[errors.SluicegateError]) -> str:
    return f"[{one.code}](#{one.code.lower()})"


def _exit_codes() -> Iterator[str]:
    # The one place that says what each code means is what a job returns.
    said = re.search(r"^Returns:\n((?:    .*\n?)+)", inspect.getdoc(layer_job.main) or "", re.MULTILINE)
    meanings = dict(re.findall(r"(\d) ([^,.]+)", prose(said[1] if said else "")))
    rows = [
        [number, meaning, ", ".join(_link(one) for one in error_classes() if str(one.exit_code) == number)]
        for number, meaning in sorted(meanings.items())
    ]
    yield "## Exit codes"
    yield "They are those of the commands and of the jobs."
    yield table(["exit code", "meaning", "errors"], rows)
    yield (
        "A command line that does not parse exits with 2 too. `sluicegate status --verify` exits with 1 if a table"
        " does not reconcile. `sluicegate import` exits with 3 if something that changes the meaning was not"
        " imported, and with 4 if no table was."
    )


def environment(commands: Mapping[str, Any]) -> Iterator[str]:
    """The table of environment variables, with defaults as the options of the commands say them."""
    defaults = {
        variable: default
        for command in commands.values()
        for _, variable, default in (split_help(option.help) for option in command.params)
    }
    rows = []
    for name, meaning in attributes(Settings).items():
        variable = code(f"SLUICEGATE_{name.upper()}")
        if variable not in defaults:  # ``given``, which no option says
            continue
        rows.append([variable, meaning, defaults[variable]])
    rows += [[code(name), meaning, default] for name, (meaning, default) in VARIABLES.items()]
    keys = {code(setting.variable): code(key) for key, setting in SETTINGS.items()}
    keyed_rows = [[row[0], keys.get(row[0], ""), *row[1:]] for row in rows]
    yield table(["variable", "in [sluicegate.toml](../howto/project.md)", "meaning", "default"], keyed_rows)
    yield "A definition may name any other variable as `${NAME}`."
