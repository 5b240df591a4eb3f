"""Parameters of a definition, and the fields in which ``${param:name}`` stands for a value.

A value is a part of the definition: it is put into paths, options and SQL before these are read, so a table whose
value changes has another definition, as if somebody had written the value there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from sluicegate.definition.fields import IDENTIFIER, Part, field_error, suggest_or_list
from sluicegate.definition.pipeline.param_values import ParamType, ParamValue, parse_param_value
from sluicegate.definition.tables.expectations import CONDITIONS, EXPECT_ALL
from sluicegate.definition.yaml import Path
from sluicegate.spark_sql.placeholders import REFERENCE, Literals, Misplaced, fill_placeholders
from sluicegate.spark_sql.tokens import QuerySyntax

Place = Literal["path", "option", "sql"]

# Takes a mistake: code, path of the document, message, hint, and the line within the text there, if it is known.
Report = Callable[[str, Path, str, str, int | None], None]


# A value as it is written; its parameter says of which type it is.
GivenValue = Annotated[Any, Field(json_schema_extra={"type": ["string", "number", "boolean", "array"]})]


class Param(Part):
    """A parameter, which stands as ``${param:name}`` in paths, options and SQL.

    Attributes:
        type: its type; that of a list gives the items of ``IN (${param:name})``.
        default: its value, where the target that is chosen gives it no other.
    """

    type: ParamType
    default: GivenValue = None

    @model_validator(mode="before")
    @classmethod
    def _check_type(cls, value: Any) -> Any:
        default = value
        if isinstance(value, dict):
            if "type" in value:
                return value
            default = value.get("default")
        fields = f"type: {_guess_type(default)}"
        if isinstance(default, bool):
            fields += f", default: {default}".lower()
        elif default is not None:
            fields += f", default: {default}"
        raise field_error("untyped-param", "a parameter needs a type", f"for example {{{fields}}}")

    @model_validator(mode="after")
    def _check_default(self) -> Param:
        if self.default is not None:
            parse_param_value(self.type, self.default)
        return self


def _guess_type(default: Any) -> str:
    if isinstance(default, list):
        return f"list<{_guess_type(default[0] if default else '')}>"
    kinds = {bool: "boolean", int: "int", float: "double"}
    return kinds.get(type(default), "string")


@dataclass
class Params:
    """The parameters of a definition with their values, and which of them were used.

    Attributes:
        values: value of each parameter; None where it has none, or one that was reported as wrong already.
        report: takes mistakes.
        used: names that a text refers to.
    """

    values: dict[str, ParamValue | None]
    report: Report
    used: set[str] = field(default_factory=set)

    @classmethod
    def from_declarations(
        cls, declared: Mapping[str, Param | None], target_values: Mapping[str, Any], report: Report, *, complete: bool
    ) -> Params:
        """Return parameters with their values.

        Args:
            declared: the parameters; None for one that is already reported as wrong.
            target_values: valid values of the chosen target, by name.
            report: callback for mistakes.
            complete: True if a parameter without a value is a mistake.
        """
        values: dict[str, ParamValue | None] = {}
        for name, param in declared.items():
            if not IDENTIFIER.fullmatch(name):
                message = f"{name} is not a name: letters, digits and _ are allowed, with a letter or _ first"
                report("name", ("params", name), message, "", None)
            chosen = target_values.get(name, param.default if param else None)
            values[name] = None
            if param is not None and chosen is not None:
                with suppress(PydanticCustomError):
                    values[name] = parse_param_value(param.type, chosen)
            elif param is not None and complete:
                hint = "add a default, or a value in each target"
                report("missing-param", ("params", name), f"the parameter {name} has no value", hint, None)
        return cls(values, report)

    def resolve(self, data: Any, path: Path = ()) -> Any:
        """Return a part of the document with values for references; mistakes in them are reported.

        Args:
            data: the part.
            path: the part's path in the document.
        """
        if isinstance(data, dict):
            for key in data:
                if REFERENCE.search(str(key)):
                    self._report_misplaced(key, (*path, key))
            return {key: self.resolve(value, (*path, key)) for key, value in data.items()}
        if isinstance(data, list):
            return [self.resolve(value, (*path, number)) for number, value in enumerate(data)]
        if not isinstance(data, str) or not REFERENCE.search(data):
            return data
        place = _place(path)
        names_file = place == "sql" and (path[0] == "views" or path[-1] == "sql") and len(data.split()) == 1
        if place is None or names_file:
            self._report_misplaced(data, path)
            return data
        if place == "sql":
            return self.sql(data, lambda code, message, hint, line: self.report(code, path, message, hint, line))
        return REFERENCE.sub(lambda match: self._part(match[1], path, place), data)

    def sql(self, text: str, report: Callable[[str, str, str, int], None]) -> str:
        """Fill literals into the references of a SQL text; see ``placeholders.fill_placeholders``.

        Args:
            text: SQL.
            report: callback for a mistake, with its code, message, hint and line of the text.
        """

        def literals(name: str, line: int) -> Literals:
            value = self._value(name, lambda code, message, hint: report(code, message, hint, line))
            if value:
                return value.literals
            return Literals("NULL")

        try:
            return fill_placeholders(text, literals)
        except Misplaced as error:
            report("param-place", error.message, "", error.line)
        except QuerySyntax:
            pass  # reported by whoever parses it
        self._record_use(text)
        return REFERENCE.sub("NULL", text)

    def _part(self, name: str, path: Path, place: Place) -> str:
        value = self._value(name, lambda code, message, hint: self.report(code, path, message, hint, None))
        if value is None:
            return name
        try:
            if place == "path":
                return value.path_segment
            return value.text
        except PydanticCustomError as error:
            self.report(*mistake_fields(error, path), None)
            return name

    def _value(self, name: str, report: Callable[[str, str, str], None]) -> ParamValue | None:
        self.used.add(name)
        if name not in self.values:
            hint = suggest_or_list(name, self.values, "declared parameters:", "declare it under params")
            report("unknown-param", f"unknown parameter {name}", hint)
        return self.values.get(name)

    def _report_misplaced(self, text: str, path: Path) -> None:
        self._record_use(text)
        message = "parameters are only replaced in paths, options and SQL"
        self.report("param-place", path, message, "write the value itself, or set it in each target", None)

    def _record_use(self, text: str) -> None:
        self.used |= {match[1] for match in REFERENCE.finditer(text)}


def _place(path: Path) -> Place | None:
    """Return how values are written at a path of the document; None where they are not."""
    match path:
        case (layer, table, "flows", _, field_name):  # a flow has the field that its table would have
            path = (layer, table, field_name)
    match path:
        case ("bronze", _, "path" | "cleanSourceMoveDestination"):
            return "path"
        case ("bronze", _, "options" | "kafka", _, *_):
            return "option"
        case ("views", _) | ("silver" | "gold", _, "sql") | (_, _, "apply_changes", "apply_as_deletes"):
            return "sql"
        case (_, _, "expectations", _, condition) if condition in CONDITIONS:
            return "sql"
        case (_, _, "expect_table", _, "sql"):
            return "sql"
        case (_, _, field_name, _) if field_name in EXPECT_ALL:
            return "sql"
    return None


def mistake_fields(error: PydanticCustomError, path: Path) -> tuple[str, Path, str, str]:
    """Return the code, path, message and hint of a mistake."""
    context = error.context or {}
    return error.type, path, str(context["message"]), str(context["hint"])
