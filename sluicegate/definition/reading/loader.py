"""Loader of pipeline.yaml: find, parse and resolve it, and report all its mistakes at once. No Spark, no Airflow."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from sluicegate.definition import yaml
from sluicegate.definition.checks import alerts as alert_checks
from sluicegate.definition.checks import rules as rule_checks
from sluicegate.definition.checks import types as type_checks
from sluicegate.definition.checks.columns import findings
from sluicegate.definition.checks.known_tables import DefinedTables
from sluicegate.definition.checks.queries import OF_PLAIN_SPARK, QueryChecks
from sluicegate.definition.dag_ids import OTHERS, dag_id
from sluicegate.definition.fields import Part, name_fault, suggest_name, suggest_or_list
from sluicegate.definition.pipeline import targets as definition_targets
from sluicegate.definition.pipeline.model import BronzeTable, Header, Pipeline
from sluicegate.definition.pipeline.params import Param, Params
from sluicegate.definition.pipeline.targets import Target
from sluicegate.definition.pipeline.views import Views
from sluicegate.definition.reading.messages import validation_mistakes
from sluicegate.definition.reading.mistakes import Mistakes
from sluicegate.definition.tables.expectations import EXPECT_ALL
from sluicegate.definition.tables.gold import GoldTable
from sluicegate.definition.tables.python_function import GOLD_PARAMETERS, PARAMETERS, NoTransform, PythonTransform
from sluicegate.definition.tables.ruled import Ruled
from sluicegate.definition.tables.silver import SilverTable
from sluicegate.definition.tables.table import DEIDENTIFIED, LAYERS, REJECTED, Layer, MadeRows
from sluicegate.definition.tables.table_rules import TableRule
from sluicegate.errors import PipelineMissing
from sluicegate.settings import Settings
from sluicegate.spark_sql import union_all
from sluicegate.spark_sql.analysis.functions import argument_mistakes
from sluicegate.spark_sql.query import Query
from sluicegate.spark_sql.tokens import QuerySyntax

FILE = "pipeline.yaml"

# Suffixes of the names of tables that stand with others.
SUFFIXES = {"_quarantine": "quarantine", REJECTED: "rejected rows", DEIDENTIFIED: "de-identified copy"}

# Fields kept of a table with mistakes: valid entries of the former, and the latter, which give its rows.
_BY_NAME = ("expectations", *EXPECT_ALL, "expect_table", "options", "lookups", "flows")
_SOURCES = ("path", "format", "options", "sql", "python", "from", "flows")
_MODELS: dict[Layer, type[Ruled]] = {"bronze": BronzeTable, "silver": SilverTable, "gold": GoldTable}

# Variables of a Spark with settings of its own, and of a catalog that may have functions.
_OTHER_SPARK = ("SPARK_CONF_DIR", "SLUICEGATE_METASTORE")

P = TypeVar("P", bound=Part)


def names(pipelines: Path) -> list[str]:
    """Return the sorted names of the pipelines in a folder, none if the folder is missing."""
    return sorted(path.parent.name for path in pipelines.glob(f"*/{FILE}"))


def load(name: str, settings: Settings, *, of_many: bool = False) -> Pipeline:
    """Load the definition of a pipeline, with the settings of the chosen target if it has targets.

    Args:
        name: name of the pipeline and of its folder.
        settings: folder of the definitions, values of ``${landing}`` and ``${lake}``, and the target.
        of_many: True if other pipelines are loaded with the same settings, some of them without targets.

    Raises:
        PipelineMissing: there is no such pipeline.
        DefinitionError: its definition has mistakes; the error has all of them.
    """
    file = settings.pipelines / name / FILE
    # A look at one folder, where a task starts beside hundreds of others.
    if Path(name).name != name or not file.is_file():
        pipelines = names(settings.pipelines)
        hint = suggest_or_list(name, pipelines, "its pipelines:", "the folder contains no pipeline")
        raise PipelineMissing(f"unknown pipeline {name} in {settings.pipelines}", hint=hint)
    return _Loader(file, settings, expected=name, of_many=of_many).load()


def load_file(path: Path, settings: Settings) -> Pipeline:
    """Load a definition from its file; see ``load``.

    Raises:
        PipelineMissing: there is no such file.
        DefinitionError: the definition has mistakes; the error has all of them.
    """
    if not path.is_file():
        raise PipelineMissing(f"no definition at {path}")
    return _Loader(path, settings).load()


class _Loader:
    """Loader of one definition, which collects its mistakes."""

    def __init__(self, path: Path, settings: Settings, expected: str | None = None, *, of_many: bool = False) -> None:
        self.path = path
        self.settings = settings
        self.folder = path.parent
        self.expected = expected
        self.of_many = of_many
        self.mistakes = Mistakes(path)
        self.views = Views()
        self.declared: dict[str, Param | None] = {}
        self.targets: dict[str, Target | None] = {}
        self.params = Params({}, self._report_param)

    @property
    def variables(self) -> Mapping[str, str]:
        """Values of ``${NAME}``."""
        return {**os.environ, "landing": self.settings.landing, "lake": self.settings.lake}

    @property
    def _has_other_spark(self) -> bool:
        """Whether runs may have functions or conversions of types that Spark itself has not."""
        return bool(self.settings.remote) or any(map(os.environ.get, _OTHER_SPARK))

    def load(self) -> Pipeline:
        """Load the pipeline; raises ``DefinitionError`` with all mistakes, if there are any."""
        document = self.mistakes.document = yaml.read(self._read_text(self.path, ()) or "")
        for fault in document.faults:
            self.mistakes.add(fault.code, fault.path, fault.message, fault.hint, line=fault.line)
        data = document.data
        if not isinstance(data, dict):
            if not self.mistakes:
                self.mistakes.add("yaml-syntax", (), "expected fields, for example name: heart_rate")
            self.mistakes.stop(self.folder.name)
        data = self._resolve_references(data)
        header = self._load_header(data)
        self.views = self._load_views(data)
        tables = self._load_tables(data)
        alerts = alert_checks.findings(tables, getattr(header, "alerts", None))
        queries = QueryChecks(tables)
        checks = (findings(tables), rule_checks.findings(tables), type_checks.findings(tables), queries.findings())
        for finding in (*chain.from_iterable(checks), *alerts):
            if finding.code not in OF_PLAIN_SPARK or not self._has_other_spark:
                self.mistakes.add_finding(finding)
        for name in self.params.values:
            if name not in self.params.used:
                self.mistakes.add("unused-param", ("params", name), f"unused parameter {name}", "remove it")
        self.mistakes.stop(str(data.get("name") or self.folder.name))
        pipeline = Pipeline.model_validate(
            {**dict(header or {}), "bronze": tables.bronze, "silver": tables.silver, "gold": tables.gold}
            | {"views": data.get("views") or {}, "params": self.declared, "targets": self.targets}
            | self._target_fields()
        )
        pipeline._folder, pipeline._settings, pipeline._views = self.folder, self.settings, self.views
        pipeline._unchecked = queries.unchecked
        pipeline._values = {name: value for name, value in self.params.values.items() if value is not None}
        return pipeline

    def _resolve_references(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the document without parameters and targets, and with values where it refers to them."""
        self.targets = self._named_parts(Target, data, "targets")
        self.declared = self._named_parts(Param, data, "params")
        definition_targets.check_names(self.targets, self.mistakes.add)
        definition_targets.check_lakes(self.targets, self.mistakes.add)
        definition_targets.check_params(self.targets, self.declared, self.mistakes.add)
        name = definition_targets.choose_target(self.targets, self.settings, self.mistakes.add, of_many=self.of_many)
        target = self.targets.get(name)
        if target is not None:
            self.settings = definition_targets.settings_of(name, target, self.settings, self.mistakes.add)
        elif self.settings.target and not self.targets:  # it is that of others, and no process is to take it for ours
            self.settings = replace(self.settings, target="")
        values = {}
        if target:
            values = target.params
        self.params = Params.from_declarations(
            self.declared, values, self._report_param, complete=not data.get("targets")
        )
        fields_ = {key: value for key, value in data.items() if key not in ("params", "targets")}
        return self.params.resolve(fields_)  # type: ignore[no-any-return]

    def _target_fields(self) -> dict[str, Any]:
        """Return fields of the pipeline that the target says, too."""
        target = self.targets.get(self.settings.target)
        if target and "schedule" in target.model_fields_set:
            return {"schedule": target.schedule}
        return {}

    def _section(self, data: dict[str, Any], field: str, content: str, example: str) -> dict[str, Any]:
        """Return parts of the document by name; none where the field is something else, which is a mistake."""
        section = data.get(field)
        if isinstance(section, dict):
            return section
        if section is not None:
            hint = f"for example name: {example}"
            self.mistakes.add("wrong-type", (field,), f"expected names, each with {content}", hint)
        return {}

    def _named_parts(self, model: type[Part], data: dict[str, Any], field: str) -> dict[str, Any]:
        """Return parts of the document that have names; None for one with mistakes."""
        section = self._section(data, field, "its fields", "{…}")
        return {name: self._validate_part(model, part, (field, name), whole=True) for name, part in section.items()}

    def _report_param(self, code: str, path: yaml.Path, message: str, hint: str, line: int | None) -> None:
        if line is None:
            self.mistakes.add(code, path, message, hint)
        else:
            self.mistakes.add_sql(code, path, message, hint, line, None)

    def _load_header(self, data: dict[str, Any]) -> Header | None:
        fields = {key: value for key, value in data.items() if key not in (*LAYERS, "views")}
        header = self._validate_part(Header, fields, ())
        if header is not None and self.expected not in (None, header.name):
            message = f"the pipeline's name {header.name} differs from the name of its folder {self.expected}"
            self.mistakes.add("name-and-folder", ("name",), message)
        for field in OTHERS:
            other = dag_id(self.folder.name, field)
            if getattr(header, field, None) and (self.folder.parent / other / FILE).is_file():
                message = f"its DAG {other} would have the name of another pipeline"
                self.mistakes.add("duplicate-name", (field,), message, f"rename the pipeline {other}")
        return header

    def _load_views(self, data: dict[str, Any]) -> Views:
        """Load the views, which must be known before the tables whose queries name them."""
        section = self._section(data, "views", "a query", "SELECT …")
        return Views({name: self._parse_view(name, text) for name, text in section.items()})

    def _parse_view(self, name: str, text: Any) -> Query | None:
        path = ("views", name)
        self._check_name(name, path)
        if not isinstance(text, str):
            self.mistakes.add("wrong-type", path, "expected a query or the name of an .sql file")
            return None
        query = self._query_text(text, path)
        if query is None:
            return None
        sql, file = query
        try:
            return Query.parse(sql)
        except QuerySyntax as error:
            self._report_syntax(error, sql, file, path)
            return None

    def _load_tables(self, data: dict[str, Any]) -> DefinedTables:
        tables = DefinedTables(views=self.views)
        for layer in LAYERS:
            for name, fields in self._section(data, layer, "a table", "{…}").items():
                self._load_table(tables, layer, name, fields)
        if not tables.layers and not self.mistakes:
            self.mistakes.add("missing-field", (), "no tables: a pipeline needs at least one bronze table")
        return tables

    def _load_table(self, tables: DefinedTables, layer: Layer, name: str, fields: Any) -> None:
        path = (layer, name)
        self._check_name(name, path)
        if name in tables.layers or name in self.views.names:
            if name in tables.layers:
                where = f"a table {name} in {tables.layers[name]}"
            else:
                where = f"a view {name}"
            self.mistakes.add("duplicate-name", path, f"duplicate name: {where} exists")
            return
        tables.layers[name] = layer
        model = self._validate_part(_MODELS[layer], fields, path)
        if model is None:
            return
        self._resolve_rules(model, (*path, "expect_table"))
        if self._resolve(model, path):
            getattr(tables, layer)[name] = model

    def _check_name(self, name: str, path: yaml.Path) -> None:
        if fault := name_fault(name):
            self.mistakes.add("name", path, fault)
            return
        for suffix, purpose in SUFFIXES.items():
            if name.endswith(suffix):
                self.mistakes.add("name", path, f"{name} must not end in {suffix}, which names a table's {purpose}")

    def _validate_part(self, model: type[P], fields: Any, path: yaml.Path, *, whole: bool = False) -> P | None:
        """Validate a part of the definition, and keep the valid fields of an invalid part for the cross-table checks.

        Args:
            model: the class of the part.
            fields: the part's value in the document.
            path: the part's path in the document.
            whole: True if an invalid part is dropped whole.
        """
        try:
            return model.model_validate(fields, context=self.variables)
        except ValidationError as error:
            for code, inner, message, hint in validation_mistakes(error, model):
                self.mistakes.add(code, (*path, *inner), message, hint)
            if whole:
                return None
            return self._salvage_part(model, fields, error)

    def _salvage_part(self, model: type[P], fields: Any, error: ValidationError) -> P | None:
        if not isinstance(fields, dict):
            return None
        valid = dict(fields)
        for place in (mistake["loc"] for mistake in error.errors()):
            if len(place) > 1 and place[0] in _BY_NAME:
                valid[str(place[0])] = {key: value for key, value in valid[str(place[0])].items() if key != place[1]}
            elif place:
                valid.pop(str(place[0]), None)
            else:
                valid = {key: valid[key] for key in _SOURCES if key in valid}
        if model is BronzeTable:
            valid.setdefault("path", "/")
        try:
            return model.model_validate(valid, context=self.variables)
        except ValidationError:
            return None

    def _resolve(self, model: Part, path: yaml.Path) -> bool:
        """Parse the query or find the transform of a table, or of each of its flows; False if that fails."""
        if not isinstance(model, MadeRows):
            return True
        if isinstance(model, SilverTable) and model.flows:
            return all([self._resolve(flow, (*path, "flows", name)) for name, flow in model.flows.items()])
        if model.python is not None:
            return self._find_transform(model, model.python, (*path, "python"))
        if model.sql is None:
            return True
        query = self._query_text(model.sql, (*path, "sql"))
        return query is not None and self._parse(model, *query, (*path, "sql"))

    def _resolve_rules(self, model: Ruled, path: yaml.Path) -> None:
        """Parse the queries of the rules about a table, and drop rules whose query does not parse."""
        for name, rule in list(model.expect_table.items()):
            if rule.sql is not None:
                query = self._query_text(rule.sql, (*path, name, "sql"))
                if query is None or not self._parse(rule, *query, (*path, name, "sql")):
                    del model.expect_table[name]

    def _parse(self, model: MadeRows | TableRule, text: str, file: str | None, path: yaml.Path) -> bool:
        """Parse a query, with the views that it reads; in silver it may be a UNION ALL over streams."""
        try:
            branches = []
            if isinstance(model, SilverTable):
                branches = union_all.branches(text)
            written = [Query.parse(branch) for branch in branches or [text]]
            queries = [query for query in map(self.views.expand, written) if query is not None]
        except QuerySyntax as error:
            self._report_syntax(error, text, file, path)
            return False
        if len(queries) < len(written):  # a view has a mistake, which is reported there
            return False
        if isinstance(model, SilverTable) and branches:
            model._unite(queries, file, written)
        else:
            model._resolve(queries[0], file, written[0])
        return True

    def _report_syntax(self, error: QuerySyntax, text: str, file: str | None, path: yaml.Path) -> None:
        """Report a query that does not parse, by its calls with a wrong number of arguments if there are any."""
        calls = argument_mistakes(text)
        for call in calls:
            self.mistakes.add_sql(call.code, path, call.message, call.hint, call.line, file)
        if not calls:
            self.mistakes.add_sql("sql", path, error.message, "", error.line, file)

    def _query_text(self, text: str, path: yaml.Path) -> tuple[str, str | None] | None:
        """Return the text of a query and its file, if it has one; None without a query."""
        if len(text.split()) != 1:
            return text, None
        sql_file = self._sql_file(text, path)
        if sql_file is None:
            return None
        sql = self._read_text(sql_file, path)
        if sql is None:
            return None
        file = str(sql_file)

        def report(code: str, message: str, hint: str, line: int) -> None:
            self.mistakes.add_in_file(code, path, message, hint, line, file)

        return self.params.sql(sql, report), file

    def _find_transform(self, model: MadeRows, reference: str, path: yaml.Path) -> bool:
        parameters = GOLD_PARAMETERS if isinstance(model, GoldTable) else PARAMETERS
        try:
            model._transform = PythonTransform.find(self.folder, reference, parameters)
        except NoTransform as error:
            if error.file is None:
                self.mistakes.add(error.code, path, error.message, error.hint)
            else:
                self.mistakes.add_in_file(error.code, path, error.message, error.hint, error.line, str(error.file))
            return False
        return True

    def _sql_file(self, name: str, path: yaml.Path) -> Path | None:
        file = self.folder / name
        if not name.endswith(".sql"):
            hint = "write SELECT …, or the name of an .sql file"
            if re.fullmatch(r"\S+\.py:\w+", name):
                hint = f"write python: {name}"
            self.mistakes.add("sql-file", path, f"{name} is neither a query nor the name of an .sql file", hint)
        elif not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(self.folder)):
            self.mistakes.add("sql-file", path, f"{name} is outside the pipeline's folder")
        elif not file.is_file():
            files = [str(sql_file.relative_to(self.folder)) for sql_file in self.folder.rglob("*.sql")]
            hint = suggest_name(name, files)
            self.mistakes.add("sql-file", path, f"file {name} not found in the pipeline's folder", hint)
        else:
            return file
        return None

    def _read_text(self, file: Path, path: yaml.Path) -> str | None:
        try:
            text = file.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            self.mistakes.add("unreadable", path, f"{file} cannot be read: {error}")
            return None
        if not text.strip():
            self.mistakes.add("unreadable", path, f"{file} is empty")
            return None
        return text.replace("\r\n", "\n")
