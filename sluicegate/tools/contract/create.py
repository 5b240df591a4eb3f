"""A definition of a data contract: a silver table for each of its tables, with its columns, keys and rules."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sluicegate import definition
from sluicegate.definition import yaml as yaml_data
from sluicegate.definition.fields import IDENTIFIER
from sluicegate.definition.tables.expectations import ACTIONS
from sluicegate.errors import SourceError, UserError, Where
from sluicegate.settings import Settings
from sluicegate.spark_sql.condition import Condition
from sluicegate.spark_sql.engine_columns import RESERVED
from sluicegate.spark_sql.identifiers import literal, quote_name
from sluicegate.spark_sql.tokens import QuerySyntax, Tokens
from sluicegate.tools.contract import types
from sluicegate.tools.contract.export import ACTION, CONDITION, TABLE_RULE, THRESHOLDS
from sluicegate.tools.scaffold import staging_folder
from sluicegate.tools.scaffold.naming import comment_text, table_name
from sluicegate.tools.scaffold.render import SCHEMA

# Bytes beyond which a contract is not read.
LARGEST = 4 << 20

_OF_JAVA = {"java_method", "reflect", "try_reflect"}
_FIELDS: dict[str, str] = {action: name for name, action in ACTIONS.items()}
_FORMATS = ("json", "csv", "parquet", "orc", "avro")


@dataclass
class ContractPipeline:
    """Pipeline created from a contract.

    Attributes:
        name: its name.
        folder: the folder of its definition.
        tables: its silver tables.
        remarks: what of the contract is not in it, each with the reason.
    """

    name: str
    folder: Path
    tables: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """Return the facts for programs."""
        return {"pipeline": self.name, "folder": str(self.folder), "tables": self.tables, "left": self.remarks}


def create(file: Path, name: str | None, settings: Settings) -> ContractPipeline:
    """Create a pipeline from a contract.

    Args:
        file: the contract, YAML or JSON.
        name: the pipeline's name; that of the contract if None.
        settings: configuration with the definitions' folder.

    Raises:
        SourceError: the file cannot be read, or is no contract.
        UserError: the pipeline exists already, or the contract has no table that can be one here.
        DefinitionError: the definition would have mistakes; nothing is written.
    """
    contract = _read(file)
    if name is None:
        name = table_name(str(_first(contract, "name", "id") or file.stem))
    imported = ContractPipeline(name, staging_folder.demand_new_folder(name, settings.pipelines))
    data = _Draft(contract, imported).definition()
    if not imported.tables:
        causes = "\n    ".join(imported.remarks)
        raise UserError(f"{file.name} has no table with columns", cause=causes, hint="it requires schema[].properties")
    remarks = "".join(f"# left: {comment_text(remark, 200)}\n" for remark in imported.remarks)
    about = f"# From the contract {comment_text(file.name)}. Where its files land, and their format, are guesses."
    text = f"{SCHEMA}\n{about}\n{remarks}"
    with staging_folder.stage_folder(name, imported.folder) as half:
        body = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=120)
        (half / "pipeline.yaml").write_text(text + body, "utf-8")
        definition.load_file(half / "pipeline.yaml", settings)
        half.rename(imported.folder)
    return imported


def _read(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > LARGEST:
            raise SourceError(f"{file.name} is too large for a contract", where=Where(file=str(file)))
        document = yaml_data.read(file.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(f"{file} cannot be read", where=Where(file=str(file)), cause=str(error)) from None
    if faults := document.faults:
        where = Where(file=str(file), line=faults[0].line)
        raise SourceError(f"{file.name} is not plain YAML: {faults[0].message}", where=where, hint=faults[0].hint)
    data = document.data
    of_kind = isinstance(data, dict) and data.get("kind") == "DataContract"
    if not of_kind or not str(data.get("apiVersion")).startswith("v3."):
        hint = "it must start with apiVersion: v3.1.0 and kind: DataContract"
        raise SourceError(f"{file.name} is not a data contract of ODCS 3", where=Where(file=str(file)), hint=hint)
    return dict(data)


@dataclass
class _Draft:
    """Definition in the making; what cannot be taken over goes to ``imported.remarks``."""

    contract: Mapping[str, Any]
    imported: ContractPipeline

    def definition(self) -> dict[str, Any]:
        """Return the definition as its YAML has it."""
        contract = self.contract
        purpose = contract.get("description")
        if isinstance(purpose, dict):
            purpose = purpose.get("purpose")
        head = {
            "name": self.imported.name, "description": str(purpose or ""), "owner": self._owner(),
            "tags": _texts(contract.get("tags")),
        }  # fmt: skip
        bronze: dict[str, Any] = {}
        silver: dict[str, Any] = {}
        for schema in types.parts(contract.get("schema")):
            name = table_name(str(schema.get("name") or ""))
            columns = [*self._columns(name, schema)]
            if not name or name in silver or not columns:
                self._leave(f"the table {schema.get('name')}: it has no name, a duplicate name, or no columns")
                continue
            bronze[f"{name}_raw"] = self._bronze(name, columns)
            silver[name] = self._silver(name, schema, columns)
            self.imported.tables.append(name)
        for part in ("slaProperties", "roles", "price", "support", "context"):
            if contract.get(part):
                self._leave(f"{part}: a definition has no equivalent")
        return _without_empty(head) | {"bronze": bronze, "silver": silver}

    def _leave(self, remark: str) -> None:
        self.imported.remarks.append(remark)

    def _owner(self) -> str:
        team = self.contract.get("team")
        if not isinstance(team, dict):
            team = {"members": team}
        members = types.parts(team.get("members"))
        owners = [member for member in members if str(member.get("role", "")).lower() == "owner"]
        owner = next(iter(owners or members), {})
        return str(_first(owner, "username", "name") or team.get("name") or "")

    def _columns(self, table: str, schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        names: set[str] = set()
        for column in types.parts(schema.get("properties")):
            name = str(column.get("name") or "")
            if not IDENTIFIER.fullmatch(name) or name.startswith("_") or name.lower() in {*names, *RESERVED}:
                self._leave(f"{table}.{name}: invalid or duplicate column name")
                continue
            names.add(name.lower())
            yield column

    def _bronze(self, table: str, columns: list[Mapping[str, Any]]) -> dict[str, Any]:
        server = next(iter(types.parts(self.contract.get("servers"))), {})
        form = str(server.get("format", "")).lower()
        kinds = {str(column["name"]): types.spark_type(column) for column in columns}
        nested = ("ARRAY", "STRUCT", "MAP")
        hints = [f"{quote_name(n)} {kind if kind.startswith(nested) else 'STRING'}" for n, kind in kinds.items()]
        fields: dict[str, Any] = {"path": f"${{landing}}/{self.imported.name}/{table}",
                                "format": form if form in _FORMATS else "json"}  # fmt: skip
        if form == "csv":
            fields |= {"options": {"header": "true"}}
        return fields | ({"schemaHints": ", ".join(hints)} if fields["format"] in ("json", "csv") else {})

    def _silver(self, name: str, contract: Mapping[str, Any], columns: list[Mapping[str, Any]]) -> dict[str, Any]:
        names = [str(column["name"]) for column in columns]
        keys = _keys(columns)
        tags = self._tags(name, contract)
        rules = dict(self._rules(name, contract, columns, keys))
        of_table = {rule: check for rule, check in self._table_rules(name, contract) if rule not in rules}
        optional = {
            "keys": keys, "pii": [str(column["name"]) for column in columns if _is_personal(column)],
            "comment": str(contract.get("description") or ""),
            "column_comments": {str(c["name"]): str(c["description"]) for c in columns if c.get("description")},
            "tags": tags, "expectations": rules, "expect_table": of_table,
        }  # fmt: skip
        return {
            "sql": f"SELECT {', '.join(f'r.{quote_name(n)}' for n in names)} FROM STREAM({name}_raw) AS r",
            "schema": ", ".join(f"{quote_name(str(c['name']))} {types.spark_type(c)}" for c in columns),
            **_without_empty(optional),
        }

    def _table_rules(self, table: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the rules about the whole table in the form of Sluicegate's own contracts, without their queries."""
        tables = {table_name(str(other.get("name") or "")) for other in types.parts(self.contract.get("schema"))}
        for check in types.parts(schema.get("quality")):
            text = _custom(check).get(TABLE_RULE)
            if text is None:
                continue
            name, rule_fields = str(check.get("name")), _table_rule(str(text))
            if rule_fields is None:
                other = ""
            else:
                other = str(rule_fields.get("references", table)).partition("(")[0].strip()
            if rule_fields is None or "sql" in rule_fields or other not in tables or not IDENTIFIER.fullmatch(name):
                self._leave(f"{table}: the rule {name}, which is a query, or of a table not in the contract")
            else:
                yield name, rule_fields

    def _tags(self, table: str, schema: Mapping[str, Any]) -> dict[str, str]:
        tags: dict[str, str] = {}
        for tag in _texts(schema.get("tags")):
            name, _, text = tag.partition(":")
            if IDENTIFIER.fullmatch(name):
                tags[name] = text or "true"
            else:
                self._leave(f"{table}: the tag {tag}, whose name has characters other than letters and digits")
        return tags

    def _rules(
        self, table: str, schema: Mapping[str, Any], columns: list[Mapping[str, Any]], keys: list[str]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        taken: set[str] = set()
        for column in columns:
            name = str(column["name"])
            if column.get("required") is True and name not in keys:
                yield from self._rule(table, taken, f"{name}_required", f"{quote_name(name)} IS NOT NULL")
            if column.get("unique") is True and keys != [name]:
                yield from self._rule(table, taken, f"{name}_unique", f"unique({quote_name(name)})")
            for check in types.parts(column.get("quality")):
                yield from self._quality(table, taken, check, name)
        for check in types.parts(schema.get("quality")):
            if TABLE_RULE not in _custom(check):
                yield from self._quality(table, taken, check, None)

    def _quality(
        self, table: str, taken: set[str], check: Mapping[str, Any], column: str | None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        custom = _custom(check)
        label = str(_first(check, "name", "metric", "rule", "type") or "rule")
        condition = str(custom[CONDITION]) if CONDITION in custom else _condition(check, column)
        if condition is None:
            self._leave(f"{table}: the rule {label}, which is not a row condition")
            return
        field_ = _FIELDS.get(str(custom.get(ACTION)), "expect_or_quarantine")
        name = label if IDENTIFIER.fullmatch(label) else table_name(label)
        if column and not check.get("name"):
            name = f"{column}_{name}"
        above = {field: _threshold(str(custom[of])) for field, of in THRESHOLDS.items() if of in custom}
        for free, fields in self._rule(table, taken, name or "rule", condition, field_):
            yield free, fields | above

    def _rule(
        self, table: str, taken: set[str], name: str, condition: str, action: str = "expect_or_quarantine"
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        try:
            parsed = Condition.parse(condition)
        except QuerySyntax as error:
            self._leave(f"{table}: the rule {name}: {error.message}")
            return
        if "${" in condition or _calls_java(condition):
            self._leave(f"{table}: the rule {name}, which could read data outside the row")
            return
        if parsed.unique and action == "expect_or_drop":
            action = "expect_or_quarantine"  # a row that is not unique cannot be dropped
        free, count = name, 2
        while free in taken:
            free, count = f"{name}_{count}", count + 1
        taken.add(free)
        yield free, {action: condition}


def _condition(check: Mapping[str, Any], column: str | None) -> str | None:
    """Return the condition on a row for a check of ODCS's library, None for any other check."""
    metric = _first(check, "metric", "rule")
    arguments = check.get("arguments")
    if not isinstance(arguments, dict):
        arguments = {}
    if check.get("mustBe") != 0 or check.get("unit") not in (None, "rows"):
        return None
    if metric == "duplicateValues":
        unique = _texts(arguments.get("properties")) or ([column] if column else [])
        if unique:
            return f"unique({', '.join(map(quote_name, unique))})"
        return None
    if column is None:
        return None
    if metric == "nullValues":
        return f"{quote_name(column)} IS NOT NULL"
    if metric == "invalidValues":
        return _validity(column, arguments)
    return None


def _validity(column: str, arguments: Mapping[str, Any]) -> str | None:
    """Return the condition that a column has a valid value or matches a valid pattern, None without either."""
    values, pattern = arguments.get("validValues"), arguments.get("pattern")
    if isinstance(values, list) and values:
        return f"{quote_name(column)} IN ({', '.join(map(_value, values))})"
    if isinstance(pattern, str):
        return f"{quote_name(column)} RLIKE {literal(pattern)}"
    return None


def _keys(columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the columns of the primary key, in its order."""
    keys = [column for column in columns if column.get("primaryKey") is True]
    return [str(column["name"]) for column in sorted(keys, key=_place_in_key)]


def _place_in_key(column: Mapping[str, Any]) -> int:
    place = column.get("primaryKeyPosition")
    if isinstance(place, int):
        return place
    return 0


def _custom(check: Mapping[str, Any]) -> dict[str, Any]:
    return {str(part.get("property")): part.get("value") for part in types.parts(check.get("customProperties"))}


def _threshold(text: str) -> int | str:
    """Return how many rows may break a rule, as a definition has it."""
    number = text.replace(",", "")
    if number.isdecimal():
        return int(number)
    return text


def _table_rule(text: str) -> dict[str, Any] | None:
    """Return the fields of a rule about a whole table; None if the text is not of one."""
    try:
        fields = json.loads(text)
    except ValueError:
        return None
    if isinstance(fields, dict):
        return dict(fields)
    return None


def _calls_java(condition: str) -> bool:
    """Return whether a condition calls any function of Java: a contract may be a stranger's."""
    tokens = Tokens(condition)
    return any(tokens.name(index).lower() in _OF_JAVA for index in range(len(tokens)))


def _value(value: Any) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if is_number:
        return str(value)
    return literal(str(value))


def _is_personal(column: Mapping[str, Any]) -> bool:
    tags = {tag.lower() for tag in _texts(column.get("tags"))}
    return "pii" in tags or str(column.get("classification", "")).lower() == "pii"


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _first(fields: Mapping[str, Any], *names: str) -> Any:
    """Return the first value among fields, None if all are missing or empty."""
    return next(filter(None, map(fields.get, names)), None)


def _texts(values: Any) -> list[str]:
    if isinstance(values, list):
        return [str(value) for value in values if isinstance(value, (str, int, float))]
    return []
