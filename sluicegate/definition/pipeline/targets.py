"""Targets of a definition: the places and values of one environment, and which of them a run has.

What a command line says comes first, then what the target says, then the environment, then the defaults. Each target
says its lake, and no two the same: what is tried in one cannot get into the tables of another.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import field_validator, model_validator
from pydantic_core import PydanticCustomError

from sluicegate import pii_key
from sluicegate.definition.fields import (
    VARIABLE,
    Part,
    Schedule,
    check_absolute,
    field_error,
    suggest_name,
    suggest_or_list,
)
from sluicegate.definition.pipeline.param_values import parse_param_value
from sluicegate.definition.pipeline.params import GivenValue, Param, mistake_fields
from sluicegate.definition.yaml import Path
from sluicegate.settings import TARGET, Settings, place

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")

# Takes a mistake: code, path of the document, message and hint.
Add = Callable[[str, Path, str, str], None]


class Target(Part):
    """An environment of the pipeline, such as ``dev`` or ``prod``, chosen by ``--target`` or ``SLUICEGATE_TARGET``.

    Its variables ``${NAME}`` are those of the environment, and need to be set only where it is chosen.

    Attributes:
        lake: path or URI of the tables' root; no other target has the same.
        landing: path or URI of the folder that files arrive in; without it that of the environment.
        master: Spark master, or the address of a Spark Connect server; without it that of the environment.
        schedule: schedule in place of the pipeline's; ``null`` for runs by hand only.
        params: values of parameters, in place of their defaults.
    """

    lake: str
    landing: str | None = None
    master: str | None = None
    schedule: Schedule | None = None
    params: dict[str, GivenValue] = {}

    @field_validator("lake", "landing")
    @classmethod
    def _check_place(cls, text: str | None) -> str | None:
        for name in ("lake", "landing"):
            if text is not None and f"${{{name}}}" in text:
                raise field_error("not-allowed", f"${{{name}}} is set by the target itself", "write a path or a URI")
        if text is not None and not text.startswith("${"):
            check_absolute(text, "write an absolute path or a URI")
        return text

    @model_validator(mode="before")
    @classmethod
    def _check_lake(cls, value: Any) -> Any:
        if isinstance(value, dict) and "lake" not in value:
            hint = "for example lake: s3a://bucket/lake-of-this-target"
            raise field_error("missing-field", "lake is missing: each target needs its own tables", hint)
        return value


def choose_target(targets: Mapping[str, Target | None], settings: Settings, add: Add, *, of_many: bool) -> str:
    """Return the name of the chosen target; empty if the definition has no targets, or the choice is a mistake.

    Args:
        targets: the targets; None for one that is already reported as wrong.
        settings: settings of a command line or program.
        add: callback for a mistake.
        of_many: True if other pipelines are read with the same settings, some of them without targets.
    """
    name = settings.target or os.environ.get(TARGET) or settings.project_target
    names = ", ".join(targets)
    if not targets:
        if settings.target not in ("", settings.project_target) and not of_many:
            hint = "omit it, or declare it under targets"
            add("unknown-target", (), f"unknown target {name}: this pipeline has no targets", hint)
        return ""
    if not name:
        hint = f"pass --target {next(iter(targets))}, or set {TARGET}"
        add("no-target", ("targets",), f"no target chosen (targets: {names})", hint)
        return ""
    if name not in targets:
        add("unknown-target", ("targets",), f"unknown target {name}", suggest_or_list(name, targets, "targets:"))
        return ""
    return name


def settings_of(name: str, target: Target, settings: Settings, add: Add) -> Settings:
    """Return the settings of a target.

    Args:
        name: the target's name.
        target: the target.
        settings: settings of the command line, which come first, and of the environment.
        add: callback for a mistake.
    """

    def setting_value(field: str, text: str | None, otherwise: str) -> str:
        if text is None or field in settings.given:
            return otherwise
        path, location = ("targets", name, field), _expand_variables(text)
        unset = VARIABLE.findall(location)
        for variable in unset:
            if variable == pii_key.VARIABLE:
                add("unset-variable", path, f"${{{variable}}} is a secret, which a definition must not reference", "")
            else:
                hint = "set it in the environment of every process that runs this target"
                add("unset-variable", path, f"${{{variable}}} has no value", hint)
        if field != "master" and not unset:
            try:
                check_absolute(location, "set the variable to an absolute path or a URI")
            except PydanticCustomError as error:
                add(*mistake_fields(error, path))
        return location

    return replace(
        settings,
        lake=place(setting_value("lake", target.lake, settings.lake)),
        landing=place(setting_value("landing", target.landing, settings.landing)),
        master=setting_value("master", target.master, settings.master),
        target=name,
        given=frozenset(settings.arguments),
    )


def check_names(targets: Mapping[str, Target | None], add: Add) -> None:
    """Report names that a command line or file cannot have."""
    for name in targets:
        if not _NAME.fullmatch(name):
            message = f"invalid target name {name!r}: use letters, digits, _ - and ., starting with a letter or digit"
            add("name", ("targets", name), message, "")


def check_lakes(targets: Mapping[str, Target | None], add: Add) -> None:
    """Report targets that share a lake, compared by name where variables are not set."""
    lakes: dict[str, str] = {}
    for name, target in targets.items():
        if target is not None:
            lake = place(_expand_variables(target.lake))
            if (other := lakes.setdefault(lake, name)) != name:
                sentence = (
                    f"{other} and {name} share the lake {target.lake}, so they would overwrite each other's tables"
                )
                add("same-lake", ("targets", name, "lake"), sentence, "use a separate lake for each target")


def check_params(targets: Mapping[str, Target | None], declared: Mapping[str, Param | None], add: Add) -> None:
    """Report mistakes in the values that targets give to parameters, also of targets that are not chosen."""
    for target, fields in targets.items():
        if fields is None:
            continue
        for name, value in fields.params.items():
            path, param = ("targets", target, "params", name), declared.get(name)
            if name not in declared:
                hint = suggest_name(name, declared) or "declare it under params"
                add("unknown-param", path, f"unknown parameter {name}", hint)
            elif param is not None:
                try:
                    parse_param_value(param.type, value)
                except PydanticCustomError as error:
                    add(*mistake_fields(error, path))
        for name, param in declared.items():
            if param is not None and param.default is None and name not in fields.params:
                message = f"{target} sets no value for the parameter {name}, which has no default"
                add("missing-param", ("targets", target), message, f"for example params: {{{name}: …}}")


def _expand_variables(text: str) -> str:
    """Fill environment variables into a text; empty ones stay, or a lake would be wherever a process runs."""

    def variable_value(match: re.Match[str]) -> str:
        if match[1] == pii_key.VARIABLE:
            return match[0]
        return os.environ.get(match[1]) or match[0]

    return VARIABLE.sub(variable_value, text)
