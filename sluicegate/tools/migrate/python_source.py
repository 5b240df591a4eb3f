"""Parser of a Python source of Delta Live Tables, by its syntax tree. Nothing of it is run."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Collection, Iterator
from typing import Any

from sluicegate.errors import UserError, Where
from sluicegate.tools.migrate import name_bindings
from sluicegate.tools.migrate.column_expressions import KNOWN
from sluicegate.tools.migrate.dataframe_chain import Chain
from sluicegate.tools.migrate.model import Action, ChangeFlow, Dataset, ParsedSource, Rule
from sluicegate.tools.migrate.queries import NotTaken, address
from sluicegate.tools.migrate.rewriting import columns_of
from sluicegate.tools.migrate.settings_of_source import SourceSettings

_KINDS = {"table": "table", "create_table": "table", "view": "view", "temporary_view": "view",
          "materialized_view": "materialized"}  # fmt: skip

# Positional arguments of a flow of changes, as far as all versions agree on them.
_POSITIONS = ("target", "source", "keys", "sequence_by")

_RULES: dict[str, Action] = {
    "expect": "expect", "expect_or_drop": "expect_or_drop", "expect_or_fail": "expect_or_fail",
    "expect_all": "expect", "expect_all_or_drop": "expect_or_drop", "expect_all_or_fail": "expect_or_fail",
}  # fmt: skip
_CDC = ("create_auto_cdc_flow", "apply_changes")
_FLOWS = ("append_flow", "update_flow", "foreach_batch_sink")
_TARGET = ("create_streaming_table", "create_target_table", "create_streaming_live_table")

# Functions that declare a table when they are called, and not used as decorators.
_DECLARING = (*_TARGET, *_KINDS)

# Arguments of a table that say how it is stored or refreshed, and nothing of its rows.
_STORAGE = {
    "table_properties", "partition_cols", "cluster_by", "cluster_by_auto", "path", "format", "temporary", "private",
    "refresh_policy",
}  # fmt: skip

# How calls begin that neither declare a table nor set anything that one depends on.
_SILENT_CALLS = ("print", "display", "dbutils.widgets.", "dbutils.library.", "logging.", "logger.", "log.")

# Modules whose functions declare no table, but those that are read.
_HARMLESS_MODULES = {"dlt", "pyspark", "delta", *sys.stdlib_module_names}

_FIELDS = {
    "keys", "sequence_by", "stored_as_scd_type", "apply_as_deletes", "ignore_null_updates", "column_list",
    "except_column_list", "track_history_column_list", "track_history_except_column_list",
}  # fmt: skip


def read(text: str, file: str, settings: SourceSettings) -> ParsedSource:
    """Read a Python source.

    Args:
        text: the source.
        file: its name, for messages.
        settings: values of ``spark.conf``.

    Raises:
        UserError: it is not Python.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(text)
    except SyntaxError as error:
        where = Where(file=file, line=error.lineno)
        raise UserError(f"{file} is not Python", where=where, cause=error.msg) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{file} is not Python", where=Where(file=file), cause=str(error)) from None
    reader = _Reader(file, name_bindings.changed_names(module), name_bindings.own_names(module), settings)
    for node in module.body:
        reader.node(node)
    for inner in ast.walk(module):
        reader.note_declaration(inner)
    for name, (value, line) in settings.defaults.items():
        reason = f"its default {value!r} is written out; --set {name}=… sets another value"
        reader.source.leave_harmless(line, f"spark.conf {name}", reason)
    return reader.source


class _Reader:
    """Reads the top-level statements of a module in order."""

    def __init__(self, file: str, changed: Collection[str], own_names: set[str], settings: SourceSettings) -> None:
        self.file, self.changed = file, changed
        self.source = ParsedSource()
        self.names = name_bindings.NameBindings(settings=settings)
        self.own_names = own_names
        self.imported: set[str] = set()  # from modules of which nothing is known
        self.names.modules -= own_names
        self.names.pipelines -= own_names
        self.decorators: set[int] = set()  # ids of calls that are decorators

    def node(self, node: ast.stmt) -> None:
        try:
            if self._is_silent(node):
                return
            if isinstance(node, ast.Assign) and self._constant(node):
                return
            if isinstance(node, ast.FunctionDef) and any(map(self._dlt_name, node.decorator_list)):
                self._function(node)
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and self._dlt_name(node.value):
                self._call(node.value)
            else:
                self._leave_code(node)
        except NotTaken as error:
            self.source.leave(error.line, _title(node), error.message)
        except RecursionError:
            self.source.leave(node.lineno, _title(node), "it is nested too deeply")

    def _leave_code(self, node: ast.stmt) -> None:
        reason = "Python code is not converted, only table declarations, expectations and CDC flows"
        changes_meaning = _may_change_tables(node, self.imported)
        self.source.leave(node.lineno, _title(node), reason, changes_meaning=changes_meaning)

    def note_declaration(self, node: ast.AST) -> None:
        """Note a table declared anywhere in the module, whether it is read or not."""
        if isinstance(node, ast.FunctionDef):
            self.decorators |= set(map(id, node.decorator_list))
            if any(self._dlt_name(decorator) in _FLOWS for decorator in node.decorator_list):
                self.source.unnamed[f"the flow {node.name}"] = node.lineno
            for decorator in node.decorator_list:
                if self._dlt_name(decorator) in _KINDS:
                    self._declare(decorator, node.name)
            return
        # Also dlt.table(function, name="x").
        if isinstance(node, ast.Call) and id(node) not in self.decorators and self._dlt_name(node) in _DECLARING:
            self._declare(node, None)

    def _declare(self, node: ast.expr, default: str | None) -> None:
        """Note the table of a declaration; without a name in it, it has that of its function."""
        try:
            name = self._declared_name(node, default)
        except NotTaken:
            name = None
        if isinstance(name, str) and name:
            self.source.declared.setdefault(address(name.replace("`", "").split(".")), node.lineno)
        else:
            self.source.unnamed[f"a table of line {node.lineno}, whose name is computed"] = node.lineno

    def _declared_name(self, node: ast.expr, default: str | None) -> Any:
        """Evaluate the name in a declaration.

        Raises:
            NotTaken: it is a setting that has no value.
        """
        if not isinstance(node, ast.Call):
            return default
        for keyword in node.keywords:
            if keyword.arg == "name":
                return name_bindings.constant(keyword.value, self.names)
        if node.args and self._dlt_name(node) in _TARGET:
            return name_bindings.constant(node.args[0], self.names)
        return default

    def _is_silent(self, node: ast.stmt) -> bool:
        """Return whether a statement is an import or a lone string, and bind imported names."""
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for qualified_name, name in name_bindings.imports(node):
                self._bind_import(qualified_name, name)
                if qualified_name.partition(".")[0] not in _HARMLESS_MODULES:
                    self.imported.add(name.partition(".")[0])
            return True
        return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)

    def _bind_import(self, qualified_name: str, name: str) -> None:
        """Bind an imported name, unless the source binds it to something of its own too."""
        module, _, last = qualified_name.rpartition(".")
        if qualified_name in name_bindings.PIPELINES:
            self.names.pipelines.add(name)
        elif qualified_name == f"{name_bindings.FUNCTIONS}.*":
            self.names.functions |= {function: function for function in KNOWN if function not in self.own_names}
        elif name in self.own_names:
            return
        elif qualified_name == name_bindings.FUNCTIONS:
            self.names.modules.add(name)
        elif module in name_bindings.PIPELINES:
            self.names.declaring[name] = last
        elif module == name_bindings.FUNCTIONS:
            self.names.functions[name] = last

    def _constant(self, node: ast.Assign) -> bool:
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            return False
        value = name_bindings.constant(node.value, self.names)
        if value is not None and node.targets[0].id in self.changed:
            reason = "the source changes it elsewhere: write the value where it is used"
            raise NotTaken(reason, node.lineno)
        if value is None:
            return False
        self.names.constants[node.targets[0].id] = value
        return True

    def _dlt_name(self, node: ast.AST) -> str:
        """Return the name of the dlt function that is called or named, empty if it is another."""
        called = node.func if isinstance(node, ast.Call) else node
        if isinstance(called, ast.Attribute) and ast.unparse(called.value) in self.names.pipelines:
            return called.attr
        return self.names.declaring.get(called.id, "") if isinstance(called, ast.Name) else ""

    # --- functions that declare a table ------------------------------------------------------------------------------

    def _function(self, node: ast.FunctionDef) -> None:
        dataset = Dataset(node.name.lower(), node.lineno, "materialized")
        declared = ""
        for decorator in node.decorator_list:
            declared = self._read_decorator(dataset, decorator) or declared
        if not declared:
            raise NotTaken("no decorator declares a table", node.lineno)
        if declared == "flow":
            self._append_flow(dataset, node)
            return
        self.source.declared.setdefault(dataset.name, node.lineno)
        chain = self._read_chain(dataset, node)
        if declared == "view":
            dataset.kind = "view"
        elif declared == "table" and chain.streams:
            dataset.kind = "streaming"
        if self.source.find_dataset(dataset.name):
            self.source.unnamed[f"{dataset.name}, declared again"] = node.lineno
            self.source.twice.add(dataset.name)
            raise NotTaken(f"duplicate dataset {dataset.name}", node.lineno)
        self.source.datasets.append(dataset)

    def _read_chain(self, dataset: Dataset, node: ast.FunctionDef) -> Chain:
        """Read the chain that a function returns, as the query of a dataset."""
        chain = Chain.from_body(node, self.names)
        dataset.query, dataset.files, dataset.query_line = chain.sql, chain.files, node.lineno
        self.source.remarks += chain.remarks
        self.names.columns[dataset.name] = columns_of(dataset.query)
        if dataset.query is None and not dataset.rules:
            self.names.files.add(dataset.name)
        return chain

    def _append_flow(self, dataset: Dataset, node: ast.FunctionDef) -> None:
        """Read a function that adds rows to a table which is declared elsewhere."""
        if not dataset.into:
            raise NotTaken("the target of the flow is not a string literal: write target=…", node.lineno)
        name = dataset.flow or node.name.lower()
        of_flow = Dataset.from_flow(name, dataset.into, node.lineno, f"the flow {node.name}")
        self._read_chain(of_flow, node)
        self.source.datasets.append(of_flow)

    def _flow_arguments(self, dataset: Dataset, call: ast.Call, line: int) -> None:
        for keyword in [*(ast.keyword("target", argument) for argument in call.args[:1]), *call.keywords]:
            value = name_bindings.constant(keyword.value, self.names)
            if keyword.arg == "target" and isinstance(value, str):
                dataset.into = address(value.replace("`", "").split("."))
            elif keyword.arg == "name" and isinstance(value, str):
                dataset.flow = value.lower()
            elif keyword.arg == "once" and value is not False:
                reason = "it becomes an ordinary flow, which also reads what its source gets later"
                self.source.leave(line, f"once of the flow {dataset.name}", reason)
            elif keyword.arg not in ("comment", "once"):
                message = f"{keyword.arg} of the flow {dataset.name}"
                self.source.leave(keyword.value.lineno, message, "not imported")

    def _read_decorator(self, dataset: Dataset, node: ast.expr) -> str:
        """Read a decorator, and return its declaration, if it has one."""
        name = self._dlt_name(node)
        if isinstance(node, ast.Call):
            call = node
        else:
            call = ast.Call(node, [], [])
        if name in _RULES:
            dataset.rules += self._rules(name, call, node.lineno)
        elif name in _KINDS:
            self._arguments(dataset, call, node.lineno)
            return _KINDS[name]
        elif name == "append_flow":
            self._flow_arguments(dataset, call, node.lineno)
            return "flow"
        else:
            raise NotTaken(f"the decorator {ast.unparse(node)} is not imported", node.lineno)
        return ""

    def _arguments(self, dataset: Dataset, call: ast.Call, line: int) -> None:
        for keyword in call.keywords:
            value = name_bindings.constant(keyword.value, self.names)
            if keyword.arg == "name" and isinstance(value, str):
                dataset.name = address(value.replace("`", "").split("."))
            elif keyword.arg == "name":
                raise NotTaken("its name is computed: write a string literal", keyword.value.lineno)
            elif keyword.arg == "comment" and isinstance(value, str):
                dataset.comment = value
            elif keyword.arg == "schema" and isinstance(value, str):
                dataset.schema = value
            elif keyword.arg and keyword.arg.startswith("expect_all") and keyword.arg in _RULES:
                dataset.rules += list(_dictionary_rules(value, _RULES[keyword.arg], line))
            elif keyword.arg in _STORAGE:
                reason = "ignored, there is no equivalent (see maintenance and database)"
                self.source.leave_harmless(line, f"{keyword.arg} of {dataset.name}", reason)
            else:
                self.source.leave(line, f"{keyword.arg} of {dataset.name}", "there is no equivalent")

    def _rules(self, name: str, call: ast.Call, line: int) -> Iterator[Rule]:
        values = [
            name_bindings.constant(value, self.names)
            for value in [*call.args, *(keyword.value for keyword in call.keywords)]
        ]
        if name.startswith("expect_all"):
            yield from _dictionary_rules(values[0] if values else None, _RULES[name], line)
            return
        rule = dict(zip(("name", "inv"), values, strict=False))
        rule |= {str(keyword.arg): name_bindings.constant(keyword.value, self.names) for keyword in call.keywords}
        texts = all(isinstance(value, str) for value in rule.values())
        if texts and len(values) == 2 and rule.keys() == {"name", "inv"}:
            yield Rule(rule["name"], rule["inv"], _RULES[name], line)
        else:
            raise NotTaken("the name and the condition of a rule are not string literals", line)

    # --- calls that stand alone --------------------------------------------------------------------------------------

    def _call(self, call: ast.Call) -> None:
        name = self._dlt_name(call)
        if name in _CDC:
            self._changes(call)
        elif name in _TARGET:
            target = Dataset("", call.lineno, "streaming")
            if call.args:
                call.keywords.insert(0, ast.keyword("name", call.args[0]))
            self._arguments(target, call, call.lineno)
            if not target.name:
                raise NotTaken("it has no name", call.lineno)
            self.source.datasets.append(target)
        else:
            if name.startswith(("create_", "apply_")):
                self.source.unnamed[f"the {name} of line {call.lineno}"] = call.lineno
            raise NotTaken(f"{name} has no equivalent in a definition", call.lineno)

    def _changes(self, call: ast.Call) -> None:
        if len(call.args) > len(_POSITIONS):
            raise NotTaken("use keyword arguments: target=…, source=…, keys=…, sequence_by=…", call.lineno)
        fields = self._fields_of_changes(call)
        target, source = str(fields.pop("target", "")), str(fields.pop("source", ""))
        if not (target and source and {"keys", "sequence_by"} <= fields.keys()):
            raise NotTaken("target, source, keys and sequence_by must all be literals", call.lineno)
        lists = [value for value in fields.values() if isinstance(value, list)]
        if any("." in str(column) for columns in lists for column in columns):
            raise NotTaken("a key or a column is a field of a column: compute it in an earlier table", call.lineno)
        if not str(fields["sequence_by"]).isidentifier():
            raise NotTaken("sequence_by is not a column: compute it in an earlier table", call.lineno)
        names = [address(name.replace("`", "").split(".")) for name in (target, source)]
        self.source.changes.append(ChangeFlow(names[0], names[1], fields, call.lineno))

    def _fields_of_changes(self, call: ast.Call) -> dict[str, object]:
        """Return the arguments of a call that declares a flow of changes, and leave those that are not known."""
        positional = [ast.keyword(name, argument) for name, argument in zip(_POSITIONS, call.args, strict=False)]
        fields: dict[str, object] = {}
        for keyword in [*positional, *call.keywords]:
            name = str(keyword.arg)
            if isinstance(keyword.value, ast.Constant) and keyword.value.value in (None, False):
                continue  # same as absent
            value = name_bindings.constant(keyword.value, self.names)
            if name in ("sequence_by", "apply_as_deletes") and not isinstance(value, str):
                value = Chain.column_of(keyword.value, self.names).text
            if value is None or name not in {*_FIELDS, "target", "source"}:
                message = f"{name} of the changes of line {call.lineno}"
                self.source.leave(keyword.value.lineno, message, "not imported")
            else:
                fields[name] = value
        return fields


def _may_change_tables(node: ast.stmt, imported: Collection[str]) -> bool:
    """Return whether a statement may declare tables elsewhere, or change a setting that the source's tables depend on.

    Args:
        node: the statement.
        imported: names of other modules, which may declare tables wherever they are called.
    """
    if any(isinstance(inner, ast.Attribute) and ast.unparse(inner).endswith("conf.set") for inner in ast.walk(node)):
        return True
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return any(_first_name(decorator) in imported for decorator in node.decorator_list)
    alone = {id(inner.value) for inner in ast.walk(node) if isinstance(inner, ast.Expr)}
    calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    risky = [ast.unparse(call.func) for call in calls if id(call) in alone or _first_name(call) in imported]
    return any(not called.startswith(_SILENT_CALLS) for called in risky)


def _first_name(node: ast.expr) -> str:
    """Return the name that an expression begins with, as ``helpers`` in ``helpers.declare("x")``."""
    return re.split(r"\W", ast.unparse(node), maxsplit=1)[0]


def _dictionary_rules(value: object, action: Action, line: int) -> Iterator[Rule]:
    if not isinstance(value, dict) or not all(isinstance(condition, str) for condition in value.values()):
        raise NotTaken("the rules are not a dictionary of string literals", line)
    yield from (Rule(str(name), condition, action, line) for name, condition in value.items())


def _title(node: ast.stmt) -> str:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return f"{'class' if isinstance(node, ast.ClassDef) else 'def'} {node.name}"
    plain = " ".join(ast.unparse(node).split())
    if len(plain) <= 60:
        return plain
    return plain[:59] + "…"
