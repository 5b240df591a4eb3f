"""Loader of pipeline.yaml: find, parse and resolve it, and report all its mistakes at once. No Spark, no Airflow."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sluicegate.definition import rule_checks, yaml
from sluicegate.definition.checks import Finding, Tables, findings
from sluicegate.definition.expectations import EXPECT_ALL
from sluicegate.definition.fields import Part, name_fault, nearest
from sluicegate.definition.gold import GoldTable
from sluicegate.definition.messages import in_our_words
from sluicegate.definition.pipeline import (
    BronzeTable,
    Header,
    Pipeline,
)
from sluicegate.definition.python_function import GOLD_PARAMETERS, PARAMETERS, NoTransform, PythonTransform
from sluicegate.definition.ruled import Ruled
from sluicegate.definition.silver import SilverTable
from sluicegate.definition.table import DEIDENTIFIED, LAYERS, REJECTED, Layer
from sluicegate.errors import DefinitionError, Mistake, PipelineMissing
from sluicegate.settings import Settings
from sluicegate.sql.query import Query
from sluicegate.sql.tokens import QuerySyntax

FILE = "pipeline.yaml"

# Fields kept of a table with mistakes: valid entries of the former, and the latter, which give its rows.
_BY_NAME = ("expectations", *EXPECT_ALL, "expect_table", "options", "lookups")
_SOURCES = ("path", "format", "options", "sql", "python", "from")
_MODELS: dict[Layer, type[BronzeTable] | type[SilverTable] | type[GoldTable]] = {
    "bronze": BronzeTable,
    "silver": SilverTable,
    "gold": GoldTable,
}


def names(pipelines: Path) -> list[str]:
    """Sorted names of the pipelines in a folder; none if there is no such folder."""
    return sorted(found.parent.name for found in pipelines.glob(f"*/{FILE}"))


def load(name: str, settings: Settings) -> Pipeline:
    """Load the definition of a pipeline.

    Args:
        name: name of the pipeline and of its folder.
        settings: folder of the definitions, and values of ``${landing}`` and ``${lake}``.

    Raises:
        PipelineMissing: there is no such pipeline.
        DefinitionError: its definition has mistakes; the error has all of them.
    """
    known = names(settings.pipelines)
    if name not in known:
        hint = nearest(name, known) or (f"there are {', '.join(known)}" if known else "there is none in that folder")
        raise PipelineMissing(f"there is no pipeline {name} in {settings.pipelines}", hint=hint)
    return _Loader(settings.pipelines / name / FILE, settings, expected=name).load()


def load_file(path: Path, settings: Settings) -> Pipeline:
    """Load a definition from its file; see ``load``.

    Raises:
        PipelineMissing: there is no such file.
        DefinitionError: the definition has mistakes; the error has all of them.
    """
    if not path.is_file():
        raise PipelineMissing(f"there is no definition {path}")
    return _Loader(path, settings).load()


class _Loader:
    """Loader of one definition, which collects its mistakes."""

    def __init__(self, path: Path, settings: Settings, expected: str | None = None) -> None:
        self.path = path
        self.settings = settings
        self.folder = path.parent
        self.expected = expected
        self.variables: Mapping[str, str] = {**os.environ, "landing": settings.landing, "lake": settings.lake}
        self.mistakes: list[Mistake] = []
        self.document = yaml.Document()

    def load(self) -> Pipeline:
        """Load the pipeline; raises ``DefinitionError`` with all mistakes, if there are any."""
        self.document = yaml.read(self._text(self.path, ()) or "")
        for fault in self.document.faults:
            self._add(fault.code, fault.path, fault.message, fault.hint, line=fault.line)
        data = self.document.data
        if not isinstance(data, dict):
            if not self.mistakes:
                self._add("yaml-syntax", (), "fields are expected, as in name: heart_rate")
            self._stop(self.folder.name)
        header = self._header(data)
        tables = self._tables(data)
        for finding in (*findings(tables), *rule_checks.findings(tables)):
            self._find(finding)
        self._stop(str(data.get("name") or self.folder.name))
        pipeline = Pipeline.model_validate(
            {**dict(header or {}), "bronze": tables.bronze, "silver": tables.silver, "gold": tables.gold}
        )
        pipeline._folder, pipeline._settings = self.folder, self.settings
        return pipeline

    def _stop(self, name: str) -> None:
        if self.mistakes:
            own_first = sorted(self.mistakes, key=lambda m: (m.file != str(self.path), m.file, m.line or 0))
            raise DefinitionError(name, list(dict.fromkeys(own_first)))

    def _header(self, data: dict[str, Any]) -> Header | None:
        header = self._part(Header, {key: value for key, value in data.items() if key not in LAYERS}, ())
        if isinstance(header, Header) and self.expected not in (None, header.name):
            message = f"the pipeline is called {header.name}, and its folder {self.expected}: both have the same name"
            self._add("name-and-folder", ("name",), message)
        for field in ("maintenance", "verify"):
            if getattr(header, field, None) and (self.folder.parent / f"{self.folder.name}_{field}" / FILE).is_file():
                other = f"{self.folder.name}_{field}"
                message = f"its DAG would be called {other}, and there is a pipeline of that name"
                self._add("duplicate-name", (field,), message, f"give the pipeline {other} another name")
        return header if isinstance(header, Header) else None

    def _tables(self, data: dict[str, Any]) -> Tables:
        tables = Tables()
        for layer in LAYERS:
            section = data.get(layer)
            if section is not None and not isinstance(section, dict):
                self._add("wrong-type", (layer,), "tables are expected, each with its name", "as in name: {…}")
            elif section:
                for name, fields in section.items():
                    self._table(tables, layer, name, fields)
        if not tables.layers and not self.mistakes:
            self._add("missing-field", (), "there are no tables: a pipeline has at least one in bronze")
        return tables

    def _table(self, tables: Tables, layer: Layer, name: str, fields: Any) -> None:
        path = (layer, name)
        if fault := name_fault(name):
            self._add("name", path, fault)
        elif name.endswith("_quarantine"):
            self._add("name", path, f"{name} is the name of a table's quarantine: it cannot end in _quarantine")
        elif name.endswith(REJECTED):
            self._add("name", path, f"{name} is the name of a table's rejected rows: it cannot end in {REJECTED}")
        elif name.endswith(DEIDENTIFIED):
            self._add(
                "name", path, f"{name} is the name of a table's de-identified copy: it cannot end in {DEIDENTIFIED}"
            )
        if name in tables.layers:
            self._add("duplicate-name", path, f"there is a table {name} in {tables.layers[name]} already")
            return
        tables.layers[name] = layer
        model = self._part(_MODELS[layer], fields, path)
        if isinstance(model, Ruled):
            self._resolve_rules(model, (*path, "expect_table"))
        if isinstance(model, BronzeTable):
            tables.bronze[name] = model
        elif isinstance(model, (SilverTable, GoldTable)) and self._resolve(model, path):
            if isinstance(model, SilverTable):
                tables.silver[name] = model
            else:
                tables.gold[name] = model

    def _part(self, model: type[Part], fields: Any, path: yaml.Path) -> Part | None:
        """Validate a part of the definition; of an invalid one keep what is valid, for the cross-table checks."""
        try:
            return model.model_validate(fields, context=self.variables)
        except ValidationError as error:
            for code, inner, message, hint in in_our_words(error, model):
                self._add(code, (*path, *inner), message, hint)
            return self._salvaged(model, fields, error)

    def _salvaged(self, model: type[Part], fields: Any, error: ValidationError) -> Part | None:
        if not isinstance(fields, dict):
            return None
        valid = dict(fields)
        for place in (one["loc"] for one in error.errors()):
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

    def _resolve(self, model: SilverTable | GoldTable, path: yaml.Path) -> bool:
        """Parse the query or find the transform of a table; False if that fails."""
        if model.python is not None:
            return self._find_transform(model, model.python, (*path, "python"))
        if model.sql is None:
            return True
        query, file = self._query(model.sql, (*path, "sql"))
        if query is not None:
            model._resolve(query, file)
        return query is not None

    def _resolve_rules(self, model: Ruled, path: yaml.Path) -> None:
        """Parse the queries of the rules about a table; one that does not parse takes its rule away."""
        for name, rule in list(model.expect_table.items()):
            if rule.sql is None:
                continue
            rule._query, _ = self._query(rule.sql, (*path, name, "sql"))
            if rule._query is None:
                del model.expect_table[name]

    def _query(self, text: str, path: yaml.Path) -> tuple[Query | None, str | None]:
        """Parse a query, which is a text or the name of a file, and that file; a mistake in it is added."""
        file = None
        if len(text.split()) == 1:
            file = self._sql_file(text, path)
            text = (self._text(file, path) if file else None) or ""
            if file is None or not text:
                return None, None
        try:
            return Query.parse(text), str(file) if file else None
        except QuerySyntax as error:
            self._add_sql("sql", path, error.message, "", error.line, str(file) if file else None)
            return None, None

    def _find_transform(self, model: SilverTable | GoldTable, reference: str, path: yaml.Path) -> bool:
        parameters = GOLD_PARAMETERS if isinstance(model, GoldTable) else PARAMETERS
        try:
            model._transform = PythonTransform.find(self.folder, reference, parameters)
        except NoTransform as error:
            if error.file is None:
                self._add(error.code, path, error.message, error.hint)
            else:
                mistake = Mistake(error.code, _dotted(path), error.message, str(error.file), error.line, error.hint)
                self.mistakes.append(mistake)
            return False
        return True

    def _sql_file(self, name: str, path: yaml.Path) -> Path | None:
        file = self.folder / name
        if not name.endswith(".sql"):
            python = re.fullmatch(r"\S+\.py:\w+", name) is not None
            hint = f"write python: {name}" if python else "SELECT … or a file's name that ends in .sql"
            self._add("sql-file", path, f"{name} is neither a query nor the name of a file with one", hint)
        elif not file.resolve().is_relative_to(self.folder.resolve()):
            self._add("sql-file", path, f"{name} lies outside of the pipeline's folder")
        elif not file.is_file():
            hint = nearest(name, [str(found.relative_to(self.folder)) for found in self.folder.rglob("*.sql")])
            self._add("sql-file", path, f"there is no file {name} in the pipeline's folder", hint)
        else:
            return file
        return None

    def _text(self, file: Path, path: yaml.Path) -> str | None:
        try:
            text = file.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            self._add("unreadable", path, f"{file} cannot be read: {error}")
            return None
        if not text.strip():
            self._add("unreadable", path, f"{file} is empty")
            return None
        return text.replace("\r\n", "\n")

    def _find(self, finding: Finding) -> None:
        if finding.sql_line is None:
            self._add(finding.code, finding.path, finding.message, finding.hint)
            return
        layer, name = finding.path[:2]
        section: Any = self.document.data[layer][name]
        for step in finding.path[2:-1]:
            section = section[step]
        text = str(section.get("sql", ""))
        file = str(self.folder / text) if len(text.split()) == 1 else None
        self._add_sql(finding.code, finding.path, finding.message, finding.hint, finding.sql_line, file)

    def _add_sql(self, code: str, path: yaml.Path, message: str, hint: str, line: int, file: str | None) -> None:
        """Add a mistake in a query, which is in a file of its own or in pipeline.yaml."""
        if file is not None:
            self.mistakes.append(Mistake(code, _dotted(path), message, file, line, hint))
            return
        # Only a text in | style keeps its lines; in other styles the field's line must do.
        first = self.document.texts.get(path)
        self._add(code, path, message, hint, line=first + line - 1 if first else None)

    def _add(self, code: str, path: yaml.Path, message: str, hint: str = "", *, line: int | None = None) -> None:
        line = line or self.document.line(path)
        self.mistakes.append(Mistake(code, _dotted(path), message, str(self.path), line, hint))


def _dotted(path: yaml.Path) -> str:
    return ".".join(str(part) for part in path) or "the document"
