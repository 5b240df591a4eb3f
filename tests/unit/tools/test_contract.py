"""Data contracts: what is exported keeps to the published schema, comes back as the same rules, and nothing of a
contract gets into a definition unchecked or is left without a word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from open_data_contract_standard.model import OpenDataContractStandard
from typer.testing import CliRunner

from sluicegate.cli import app
from sluicegate.definition import Pipeline, load
from sluicegate.errors import DefinitionError, SourceError, UserError
from sluicegate.lake.layout import Lake
from sluicegate.settings import Settings
from sluicegate.tools.contract import create as contract_create
from sluicegate.tools.contract.create import create
from sluicegate.tools.contract.export import contract
from sluicegate.tools.contract.types import spark_type
from tests.conftest import ROOT
from tests.unit.definition.reading.test_loader import Folder

pytestmark = pytest.mark.unit

SCHEMA = json.loads(OpenDataContractStandard.json_schema())

SHOP = """\
name: shop
description: What the shop sold.
owner: tills-team
tags: [sales]
bronze:
  raw: {path: "${landing}/raw", format: json}
silver:
  orders:
    sql: SELECT r.id, r.at, r.price, r.who FROM STREAM(raw) AS r
    schema: id BIGINT, at TIMESTAMP, price DECIMAL(10, 2), who STRING
    keys: [id, at]
    pii: [who]
    comment: Receipts.
    column_comments: {price: "In euros: with tax."}
    tags: {domain: sales}
    expectations:
      dear: {expect_or_quarantine: "price >= 0"}
      known: {expect: "who IS NOT NULL"}
      early: {expect_or_drop: "at < TIMESTAMP '2030-01-01'"}
      sure: {expect_or_fail: "id > 0"}
      once: {expect_or_quarantine: "unique(who, at)"}
gold:
  daily: {sql: "SELECT date(at) AS day, count(*) AS n FROM orders GROUP BY 1"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "pipelines")
    made.root.mkdir()
    made.settings = Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), made.root)
    return made


def exported(pipeline: Pipeline, **how: Any) -> dict[str, Any]:
    made = contract(pipeline, "1.0.0", **how)
    jsonschema.Draft201909Validator(SCHEMA).validate(made)
    assert yaml.safe_load(yaml.safe_dump(made)) == made
    return made


def imported(folder: Folder, made: Any, name: str = "copy") -> tuple[Pipeline, list[str]]:
    file = folder.root.parent / "contract.yaml"
    file.write_text(made if isinstance(made, str) else yaml.safe_dump(made), "utf-8")
    done = create(file, name, folder.settings)
    return load(name, folder.settings), done.remarks


def one_table(**fields: Any) -> dict[str, Any]:
    head = {"apiVersion": "v3.1.0", "kind": "DataContract", "id": "x", "version": "1", "name": "x"}
    return {**head, "schema": [{"name": "t", "properties": [{"name": "a", "logicalType": "string"}], **fields}]}


class TestExport:
    def test_a_definition_is_a_contract_with_schema_rules_owner_and_personal_data(self, folder: Folder) -> None:
        made = exported(folder.load(SHOP))
        assert (made["apiVersion"], made["id"], made["description"]) == (
            "v3.1.0", "shop", {"purpose": "What the shop sold."},
        )  # fmt: skip
        assert made["team"] == {"members": [{"username": "tills-team", "role": "owner"}]}
        orders, daily = made["schema"]
        assert (orders["name"], orders["description"], orders["tags"]) == ("orders", "Receipts.", ["domain:sales"])
        columns = {one["name"]: one for one in orders["properties"]}
        assert columns["id"] == {"name": "id", "logicalType": "integer", "physicalType": "BIGINT", "primaryKey": True,
                                 "primaryKeyPosition": 1, "required": True}  # fmt: skip
        assert columns["price"]["logicalType"] == "number"
        assert columns["price"]["description"] == "In euros: with tax."
        assert (columns["who"]["classification"], columns["who"]["tags"]) == ("restricted", ["pii"])
        rules = {one["name"]: one for one in orders["quality"]}
        assert rules["dear"]["query"] == "SELECT count(*) FROM ${object} WHERE NOT coalesce(price >= 0, FALSE)"
        assert {name: one["severity"] for name, one in rules.items()} == {
            "dear": "error", "known": "warning", "early": "info", "sure": "error", "once": "error",
        }  # fmt: skip
        assert rules["once"]["metric"] == "duplicateValues"
        assert "properties" not in daily  # whose types only its first run tells
        assert [one["name"] for one in exported(folder.load(SHOP), only=["daily"])["schema"]] == ["daily"]

    def test_types_are_those_of_the_table_where_there_is_one(self, folder: Folder) -> None:
        pipeline = folder.load(SHOP)
        rows = pa.table({
            "day": pa.array([], pa.date32()), "n": pa.array([], pa.int64()), "_chunk": pa.array([], pa.int64()),
            "lines": pa.array([], pa.list_(pa.struct([("price", pa.decimal128(9, 2)), ("on", pa.bool_())]))),
            "more": pa.array([], pa.map_(pa.string(), pa.float64())),
        })  # fmt: skip
        write_deltalake(Lake(pipeline.settings.lake, "shop").table("gold", "daily"), rows)
        [daily] = exported(pipeline, only=["daily"])["schema"]
        columns = {one["name"]: one for one in daily["properties"]}
        assert [*columns] == ["day", "n", "lines", "more"]
        assert (columns["day"]["logicalType"], columns["n"]["physicalType"]) == ("date", "BIGINT")
        assert columns["lines"]["items"]["properties"][0] == {
            "name": "price", "logicalType": "number", "physicalType": "DECIMAL(9,2)",
        }  # fmt: skip
        assert columns["more"]["physicalType"] == "MAP<STRING, DOUBLE>"

    @pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "pipelines").iterdir() if path.is_dir()))
    def test_every_pipeline_of_ours_is_one(self, name: str, tmp_path: Path) -> None:
        exported(load(name, Settings.of(str(tmp_path / "lake"), str(tmp_path), ROOT / "pipelines")))


RULED = """\
name: shop
bronze:
  raw: {path: "${landing}/raw", format: json}
  raw_shops: {path: "${landing}/shops", format: json}
views:
  open_shops: SELECT id FROM shops WHERE id > 0
silver:
  shops: {sql: SELECT id FROM STREAM(raw_shops), schema: id BIGINT, expect_table: {some: {rows: {min: 1}}}}
  orders:
    sql: SELECT id, shop FROM STREAM(raw)
    schema: id BIGINT, shop BIGINT
    expectations:
      there: {expect_or_quarantine: "id > 0", warn_above: 1000, fail_above: "0.5%"}
    expect_table:
      few: {rows: {min: 1, max: 9}}
      most: {rows: {max: 9}}
      once: {unique: [id, shop]}
      known: {foreign_key: [shop], references: shops (id)}
      open: {sql: SELECT o.id FROM orders AS o LEFT ANTI JOIN open_shops AS s ON s.id = o.shop}
"""


class TestRulesAboutTables:
    def test_they_are_checks_that_other_tools_run(self, folder: Folder) -> None:
        shops, orders = exported(folder.load(RULED))["schema"]
        checks = {one["name"]: one for one in (*shops["quality"], *orders["quality"])}
        assert checks["some"]["mustBeGreaterOrEqualTo"] == 1
        assert (checks["few"]["metric"], checks["few"]["mustBeBetween"]) == ("rowCount", [1, 9])
        assert checks["most"]["mustBeLessOrEqualTo"] == 9
        assert (checks["once"]["arguments"], checks["once"]["mustBe"]) == ({"properties": ["id", "shop"]}, 0)
        assert checks["known"]["query"] == (
            "SELECT count(*) FROM ${object} AS t WHERE t.`shop` IS NOT NULL "
            "AND NOT EXISTS (SELECT 1 FROM shops AS o WHERE o.`id` = t.`shop`)"
        )
        assert checks["open"]["query"] == (
            "SELECT count(*) FROM (WITH open_shops AS (SELECT id FROM shops AS shops WHERE id > 0) "
            "SELECT o.id FROM ${object} AS o LEFT ANTI JOIN open_shops AS s ON s.id = o.shop)"
        )

    def test_they_come_back_but_for_queries_and_other_tables(self, folder: Folder) -> None:
        before = folder.load(RULED)
        made = exported(before)
        after, left = imported(folder, made)
        assert left == ["orders: the rule open, which is a query, or of a table not in the contract"]
        was, now = before.silver["orders"], after.silver["orders"]
        assert {name: str(rule) for name, rule in now.expect_table.items()} == {
            name: str(rule) for name, rule in was.expect_table.items() if name != "open"
        }
        assert now.expectations["there"].warn_above == was.expectations["there"].warn_above
        assert now.expectations["there"].fail_above == was.expectations["there"].fail_above
        _, left = imported(folder, exported(before, only=["orders"]), "alone")
        assert [line.split(",")[0] for line in left] == ["orders: the rule known", "orders: the rule open"]

    def test_a_text_that_is_no_rule_is_left(self, folder: Folder) -> None:
        ours = [{"property": "sluicegate.expect_table", "value": "{rows"}]
        check = {"name": "odd", "type": "custom", "customProperties": ours}
        made, left = imported(folder, one_table(quality=[check]))
        assert left == ["t: the rule odd, which is a query, or of a table not in the contract"]
        assert not made.silver["t"].expect_table


class TestImport:
    def test_what_was_exported_comes_back_as_it_was(self, folder: Folder) -> None:
        before = folder.load(SHOP)
        after, left = imported(folder, exported(before, only=["orders"]))
        assert left == []
        was, now = before.silver["orders"], after.silver["orders"]
        assert {name: (one.action, one.text) for name, one in now.expectations.items()} == {
            name: (one.action, one.text) for name, one in was.expectations.items()
        }
        assert (now.keys, now.pii, now.comment, now.tags) == (was.keys, was.pii, was.comment, was.tags)
        assert now.column_comments == was.column_comments
        assert [*(now.declared_columns or {}).values()] == ["BIGINT", "TIMESTAMP", "DECIMAL(10, 2)", "STRING"]
        assert (after.owner, after.description, after.tags) == (before.owner, before.description, before.tags)

    def test_a_contract_of_others_becomes_columns_keys_and_rules(self, folder: Folder) -> None:
        text = """
        apiVersion: v3.1.0
        kind: DataContract
        id: urn:x
        version: 2.0.0
        servers: [{server: files, type: local, path: /x, format: csv}]
        team: {name: people, members: [{username: bo, role: dev}, {username: ann, role: Owner}]}
        slaProperties: [{property: latency, value: 4}]
        schema:
          - name: Sales Orders
            properties:
              - {name: id, logicalType: integer, primaryKey: true, primaryKeyPosition: 1, required: true}
              - {name: status, logicalType: string, required: true, quality: [
                  {type: library, metric: invalidValues, mustBe: 0, arguments: {validValues: [open, "it's"]}},
                  {type: library, metric: nullValues, mustBeLessThan: 5, unit: percent}]}
              - {name: code, logicalType: string, unique: true, classification: PII, quality: [
                  {metric: invalidValues, mustBe: 0, arguments: {pattern: "^[A-Z]{2}$"}}]}
              - {name: lines, logicalType: array, items: {logicalType: object, properties: [
                  {name: price, logicalType: number, physicalType: "decimal(9,2)"}]}}
              - {name: odd name, logicalType: string}
              - {name: amount, physicalType: NUMBER, logicalType: number}
            quality:
              - {name: never empty, type: library, metric: rowCount, mustBeGreaterThan: 0}
              - {type: library, metric: duplicateValues, mustBe: 0, arguments: {properties: [id, code]}}
              - {name: by hand, type: text, description: looks right}
        """
        pipeline, left = imported(folder, text)
        assert pipeline.owner == "ann"
        bronze, table = pipeline.bronze["sales_orders_raw"], pipeline.silver["sales_orders"]
        assert (bronze.format, bronze.options, bronze.hints["id"]) == ("csv", {"header": "true"}, "STRING")
        assert table.declared_columns == {
            "id": "BIGINT", "status": "STRING", "code": "STRING", "lines": "ARRAY<STRUCT<`price`: decimal(9,2)>>",
            "amount": "DOUBLE",
        }  # fmt: skip
        assert (table.keys, table.pii) == (["id"], ["code"])
        assert {name: one.text for name, one in table.expectations.items()} == {
            "status_required": "`status` IS NOT NULL",
            "status_invalidValues": "`status` IN ('open', 'it\\'s')",
            "code_unique": "unique(`code`)",
            "code_invalidValues": "`code` RLIKE '^[A-Z]{2}$'",
            "duplicateValues": "unique(`id`, `code`)",
        }
        assert left == [
            "sales_orders.odd name: invalid or duplicate column name",
            "sales_orders: the rule nullValues, which is not a row condition",
            "sales_orders: the rule never empty, which is not a row condition",
            "sales_orders: the rule by hand, which is not a row condition",
            "slaProperties: a definition has no equivalent",
        ]
        assert "# left: sales_orders.odd name" in (pipeline.folder / "pipeline.yaml").read_text()

    def test_a_condition_that_is_more_than_one_is_left(self, folder: Folder) -> None:
        evil = [{"property": "sluicegate.condition", "value": "a > 0) OR (SELECT 1"}]
        _, left = imported(folder, one_table(quality=[{"name": "evil", "customProperties": evil}]))
        assert [one.split(":")[1].strip() for one in left] == ["the rule evil"]

    @pytest.mark.parametrize(
        "condition",
        ["a = '${env:HOME}'", "java_method('java.lang.System', 'getenv', 'HOME') = a", "`reflect`('x', 'y') = a"],
    )
    def test_a_condition_that_reads_more_than_the_row_is_left(self, folder: Folder, condition: str) -> None:
        evil = [{"property": "sluicegate.condition", "value": condition}]
        pipeline, left = imported(folder, one_table(quality=[{"name": "evil", "customProperties": evil}]))
        assert left == ["t: the rule evil, which could read data outside the row"]
        assert pipeline.silver["t"].expectations == {}

    @pytest.mark.parametrize(
        "column",
        [
            {"primaryKey": True, "primaryKeyPosition": "first"},
            {"logicalType": "object", "properties": [None, "b", {"name": "c"}]},
            {"logicalType": "object", "properties": "b"},
            {"quality": [{"metric": "duplicateValues", "mustBe": 0, "arguments": {"properties": None}}]},
            {"quality": [{"metric": "invalidValues", "mustBe": 0, "arguments": {"validValues": 1}}]},
        ],
    )
    def test_a_part_of_another_form_is_no_error_of_ours(self, folder: Folder, column: dict[str, Any]) -> None:
        made = one_table()
        made["schema"][0]["properties"].append({"name": "b", "logicalType": "string", **column})
        assert "b" in (imported(folder, made)[0].silver["t"].declared_columns or {})

    def test_a_number_that_is_none_in_sql_is_a_text(self, folder: Folder) -> None:
        check = {"metric": "invalidValues", "mustBe": 0, "arguments": {"validValues": [1.5, float("inf")]}}
        made = one_table(properties=[{"name": "a", "logicalType": "string", "quality": [check]}])
        [rule] = imported(folder, made)[0].silver["t"].expectations.values()
        assert rule.text == "`a` IN (1.5, 'inf')"

    def test_a_text_that_spark_would_replace_is_a_mistake_and_nothing_is_written(self, folder: Folder) -> None:
        with pytest.raises(DefinitionError):
            imported(folder, one_table(description="${env:HOME}"))
        assert [*folder.root.iterdir()] == []

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("kind: DataContract\n", "data contract of ODCS 3"),
            ("apiVersion: v2.2.0\nkind: DataContract\n", "data contract of ODCS 3"),
            ("- a\n", "data contract of ODCS 3"),
            ("a: [\n", "is not plain YAML"),
            ("apiVersion: !!python/object v3.1.0\n", "is not plain YAML"),
        ],
    )
    def test_a_file_that_is_no_contract_is_refused(self, folder: Folder, text: str, message: str) -> None:
        with pytest.raises(SourceError, match=message):
            imported(folder, text)

    def test_a_contract_has_LARGEST_bytes_at_most(self, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
        text = yaml.safe_dump(one_table())
        monkeypatch.setattr(contract_create, "LARGEST", len(text) - 1)
        with pytest.raises(SourceError, match="too large"):
            imported(folder, text)
        monkeypatch.setattr(contract_create, "LARGEST", len(text))
        assert [*imported(folder, text)[0].silver] == ["t"]

    def test_a_contract_without_columns_and_a_name_that_is_taken_are_refused(self, folder: Folder) -> None:
        with pytest.raises(UserError, match="has no table with columns"):
            imported(folder, one_table(properties=[]))
        folder.load(SHOP)
        with pytest.raises(UserError, match="pipeline shop already"):
            imported(folder, one_table(), name="shop")

    @pytest.mark.parametrize(
        ("column", "kind"),
        [
            ({"logicalType": "integer"}, "BIGINT"), ({"logicalType": "time"}, "STRING"), ({}, "STRING"),
            ({"logicalType": "number", "physicalType": "decimal(9,2)"}, "decimal(9,2)"),
            ({"logicalType": "string", "physicalType": "VARCHAR2(9)"}, "STRING"),
            ({"logicalType": "string", "physicalType": "INT, b INT"}, "STRING"),
            ({"physicalType": "int"}, "INT"), ({"logicalType": "array"}, "ARRAY<STRING>"),
            ({"logicalType": "object"}, "STRING"),
        ],
    )  # fmt: skip
    def test_a_column_has_a_type_of_spark(self, column: dict[str, Any], kind: str) -> None:
        assert spark_type(column) == kind


def test_the_command_prints_a_contract_and_makes_a_definition(folder: Folder, tmp_path: Path) -> None:
    folder.load(SHOP)
    places = ["--pipelines", str(folder.root), "--lake", str(tmp_path / "lake")]
    run = CliRunner().invoke(
        app.app, ["contract", "export", "shop", "--version", "1.2.0", "--table", "orders", *places]
    )
    assert run.exit_code == 0, run.output
    assert yaml.safe_load(run.output)["version"] == "1.2.0"
    file = tmp_path / "contract.yaml"
    file.write_text(run.output)
    run = CliRunner().invoke(app.app, ["contract", "import", str(file), "--name", "again", *places])
    assert run.exit_code == 0, run.output
    assert [*load("again", folder.settings).silver] == ["orders"]
    file.write_text(yaml.safe_dump(one_table(quality=[{"type": "text", "description": "x"}])))
    run = CliRunner().invoke(app.app, ["contract", "import", str(file), "--json", *places])
    assert run.exit_code == 3
    assert json.loads(run.output)["left"] == ["t: the rule text, which is not a row condition"]
    with pytest.raises(UserError, match="copy"):
        CliRunner().invoke(app.app, ["contract", "copy", "x", *places], catch_exceptions=False)
