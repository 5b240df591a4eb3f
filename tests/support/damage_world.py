"""A lake of all kinds of tables, and damages by chance to its values, rows, files and log entries.

A damage does nothing by the engine: pyarrow rewrites data files, and log entries are changed as the text that they are.
"""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyarrow import parquet

from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFINITION = """
name: heart_rate
bronze:
  customers:
    path: ${landing}/customers
    format: csv
    options: {header: true}
    inferColumnTypes: true
  orders:
    path: ${landing}/orders
    format: json
    schemaHints: >-
      id BIGINT, customer BIGINT, at TIMESTAMP, amount DECIMAL(10,2), lines ARRAY<STRUCT<part: STRING, n: INT>>
    cleanSource: MOVE
    cleanSourceRetentionDuration: 0 seconds
    cleanSourceMoveDestination: ARCHIVE
  prices: {path: "${landing}/prices", format: parquet}
silver:
  customers_now: {from: customers, apply_changes: {keys: [id], sequence_by: seq}}
  customers_then: {from: customers, apply_changes: {keys: [id], sequence_by: seq, stored_as_scd_type: 2}}
  orders_clean:
    sql: >-
      SELECT o.id, o.customer, c.name, o.at, o.amount, o.receipt_time, o.source_file
      FROM STREAM(orders) AS o LEFT JOIN customers_now AS c ON o.customer = c.id
    keys: [id]
    event_time: at
    pii: [name]
    deidentified: {name: mask}
    expectations:
      paid: {expect_or_quarantine: amount > 0}
      known: {expect_or_drop: customer IS NOT NULL}
  order_lines:
    rows: many
    sql: SELECT o.id, l.part, l.n FROM STREAM(orders) AS o LATERAL VIEW explode(o.lines) x AS l
    expectations: {some: {expect_or_quarantine: n > 0}}
  parts:
    flows:
      ordered: {sql: "SELECT id AS k, amount AS price, CAST(at AS DATE) AS day FROM STREAM(orders) WHERE id > 1"}
      priced: {sql: "SELECT k, price, day FROM STREAM(prices)"}
  prices_as_they_came: {sql: "SELECT * FROM STREAM(prices)"}
gold:
  by_customer:
    sql: >-
      SELECT customer, count(*) AS c, sum(amount) AS amount, sum(CAST(amount AS DOUBLE)) AS x, max(at) AS at
      FROM orders_clean GROUP BY customer
  newest: {sql: "SELECT * FROM orders_clean QUALIFY row_number() OVER (PARTITION BY customer ORDER BY at DESC, id) = 1"}
  tied: {sql: "SELECT k, price, day FROM parts QUALIFY row_number() OVER (PARTITION BY k ORDER BY day) = 1"}
  dearest: {sql: "SELECT id, amount FROM orders_clean ORDER BY amount DESC, id LIMIT 3"}
  plain: {sql: "SELECT id, part, n * 2 AS n FROM order_lines"}
"""
SILVER = ("customers_now", "customers_then", "orders_clean", "order_lines", "parts", "prices_as_they_came")
SIDES = tuple(f"{name}_{side}" for name in SILVER for side in ("quarantine", "set_aside"))
TABLES = ("customers", "orders", "prices", *SILVER, *SIDES, "orders_clean_deidentified",
          "by_customer", "newest", "tied", "dearest", "plain")  # fmt: skip
"""All tables that a row can be in."""

UNTOLD = {"receipt_time", "_file_modification_time", "_quarantined_at"}
"""Columns of which a verification says that they were not looked at."""


def fill(workspace: Workspace, spark: SparkSession) -> None:
    """Lands three lots of files and runs the pipeline after each; some tables get a checkpoint before the last."""
    workspace.define(DEFINITION.replace("ARCHIVE", str(workspace.folder / "archive")))
    (workspace.folder / "archive").mkdir()
    for lot in range(3):
        _land(workspace, lot)
        workspace.run(spark)
        if lot == 1:
            for name in ("orders", "orders_clean", "by_customer"):
                DeltaTable(workspace.uri(name)).create_checkpoint()


def _land(workspace: Workspace, lot: int) -> None:
    seq, age = lot * 10, 900.0 - lot * 100
    names = [f"{n},Name {n}.{lot},{seq + n}" for n in range(1, 6) if (n + lot) % 3]
    workspace.land(f"customers/{lot}.csv", "\n".join(["id,name,seq", *names, f'9,"A ""b"", c",{seq}', ""]), age)
    orders = [_order(lot * 4 + n, lot) for n in range(4)]
    odd = [
        '{"id": "x17", "customer": 1, "new": {"a": [1, 2]}}',
        '{"id": 77,',
        json.dumps({"id": 78 + lot, "amount": 5}),
    ]
    workspace.land(f"orders/{lot}.json", "\n".join([*map(json.dumps, orders), *odd]), age)
    more = gzip.compress("\n".join(json.dumps(_order(100 + lot * 3 + n, lot)) for n in range(3)).encode())
    workspace.land(f"orders/{lot}.json.gz", more, age)
    day = date(2024, 5, 1 + lot)
    prices = pa.table(
        {
            "k": pa.array([1, 2, 3 + lot], pa.int64()), "price": pa.array([Decimal("1.25"), None, Decimal(lot)]).cast(
                pa.decimal128(12, 3)
            ),
            "day": [day, day, None], "note": ["a", None, f"lot {lot}"], "raw": [b"\x00\xff", None, b"x"],
            "at": pa.array([datetime(2024, 5, 1, 1, 2, 3, 4 + lot, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
            "tags": [["x", "y"], [], None],
        }
    )  # fmt: skip
    path = workspace.land(f"prices/{lot}.parquet", b"", age)
    about = path.stat()
    parquet.write_table(prices, path)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def _order(number: int, lot: int) -> dict[str, Any]:
    lines = [{"part": f"p{n}", "n": n if number % 5 else -n} for n in range(1, number % 3 + 1)]
    at = f"2024-05-0{lot + 1}T12:00:{number % 60:02}.000{number:03}Z"
    amount = f"{number * 3 - 4}.50"
    return {"id": number % 10, "customer": number % 4 + 1, "at": at, "amount": amount, "lines": lines}


@dataclass(frozen=True)
class Damage:
    """What was damaged.

    Attributes:
        what: it in words.
        names: tables of which one has to be named.
        kinds: kinds of finding that tell of it.
    """

    what: str
    names: frozenset[str]
    kinds: frozenset[str] = frozenset({"wrong"})

    def is_told(self, kind: str, table: str) -> bool:
        """Whether a finding is of this damage."""
        return kind in self.kinds and table in self.names


class Damages:
    """Damages by chance.

    Args:
        workspace: a filled workspace.
        chance: what chooses.
    """

    def __init__(self, workspace: Workspace, chance: random.Random) -> None:
        self.workspace, self.chance = workspace, chance
        self.tables = [name for name in TABLES if workspace.rows(name)]

    @property
    def kinds(self) -> list[Callable[[], Damage]]:
        """Kinds of damage, each as often as it is drawn."""
        return [
            self.value, self.value, self.value, self.row, self.row, self.data_file, self.log_entry, self.checkpoint,
            self.landed, self.ledger,
        ]  # fmt: skip

    def one(self) -> Damage:
        """Does one damage."""
        return self.chance.choice(self.kinds)()

    # --- rows --------------------------------------------------------------------------------------------------------

    def value(self, table: str = "") -> Damage:
        """Changes one value of a row."""
        name = table or self.chance.choice(self.tables)
        path, rows = self._rows(name)
        row = self.chance.randrange(rows.num_rows)
        column = self.chance.choice([one for one in rows.schema.names if one not in UNTOLD])
        changed = another(rows[column][row].as_py(), rows.schema.field(column).type)
        how = self._replace(name, path, with_value(rows, row, column, changed))
        return of_table(name, f"{column} of row {row} of {name} is {changed!r}, {how}")

    def row(self, table: str = "") -> Damage:
        """Takes a row away, or doubles it."""
        name = table or self.chance.choice(self.tables)
        path, rows = self._rows(name)
        row = self.chance.randrange(rows.num_rows)
        if self.chance.random() < 0.5:
            others = without(rows, row)
            return of_table(name, f"row {row} of {name} is gone, {self._replace(name, path, others)}")
        doubled = pa.concat_tables([rows, rows.slice(row, 1)])
        return of_table(name, f"row {row} of {name} is doubled, {self._replace(name, path, doubled)}")

    def ledger(self) -> Damage:
        """Changes, takes away or doubles an entry of a ledger."""
        name = self.chance.choice(["customers", "orders", "prices"])
        uri = self.workspace.lake.ledger(name)
        rows = DeltaTable(uri).to_pyarrow_table()
        row, kind = self.chance.randrange(rows.num_rows), self.chance.choice(["value", "lost", "doubled"])
        column = self.chance.choice(["path", "size", "modification_time", "action", "chunk"])
        if kind == "value":
            value = rows[column][row].as_py()
            changed = {"read": "skip"}.get(value) or another(value, rows.schema.field(column).type)
            rows = with_value(rows, row, column, changed)
        elif kind == "lost":
            rows = without(rows, row)
        else:
            rows = pa.concat_tables([rows, rows.slice(row, 1)])
        write_deltalake(uri, rows, mode="overwrite")
        return Damage(f"{column} of entry {row} of the ledger of {name}: {kind}", frozenset({name}))

    def _rows(self, name: str) -> tuple[Path, pa.Table]:
        """A data file of a table and its rows."""
        file = self.chance.choice([one for one in self._data_files(name) if parquet.read_metadata(one).num_rows])
        return file, parquet.ParquetFile(file).read()

    def _data_files(self, name: str) -> list[Path]:
        uri = self.workspace.uri(name)
        return sorted(Path(uri, unquote(path)) for path in DeltaTable(uri).get_add_actions().column("path").to_pylist())

    def _replace(self, name: str, path: Path, rows: pa.Table) -> str:
        """Puts rows in the place of a data file's: in the file, or by a commit that another writer makes."""
        if self.chance.random() < 0.5:
            replacement = path.with_name(f"part-of-another-writer-{path.name}")
            parquet.write_table(rows, replacement, coerce_timestamps="us")
            self._commit(path, replacement, rows.num_rows)
            return "by a commit"
        parquet.write_table(rows, path, coerce_timestamps="us")
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        self._note_size(path)
        return f"in {path}"

    @staticmethod
    def _commit(former: Path, replacement: Path, row_count: int) -> None:
        """Commits a data file in the place of another. delta-rs refuses to write to clustered tables."""
        log = former.parent / "_delta_log"
        version = max(int(entry.stem) for entry in log.glob("*.json")) + 1
        about, when = replacement.stat(), round(replacement.stat().st_mtime * 1000)
        actions = [
            {"commitInfo": {"timestamp": when, "operation": "WRITE", "operationParameters": {"mode": "Overwrite"}}},
            {"remove": {"path": quote(former.name), "deletionTimestamp": when, "dataChange": True}},
            {"add": {"path": replacement.name, "partitionValues": {}, "size": about.st_size, "modificationTime": when,
                     "dataChange": True, "stats": json.dumps({"numRecords": row_count})}},
        ]  # fmt: skip
        (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")

    def _note_size(self, path: Path) -> None:
        """Has the log say of a data file what size it has."""
        for entry in sorted((path.parent / "_delta_log").glob("*.json")):
            lines = [json.loads(line) for line in entry.read_text().splitlines()]
            for line in lines:
                if unquote(line.get("add", {}).get("path", "")) == path.name:
                    line["add"]["size"] = path.stat().st_size
                    entry.write_text("\n".join(map(json.dumps, lines)) + "\n")
                    entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)

    # --- files -------------------------------------------------------------------------------------------------------

    def data_file(self) -> Damage:
        """Damages a data file of a table, or of what the engine notes of it."""
        folders = [self.workspace.uri(name) for name in self.tables]
        folders += [self.workspace.lake.ledger(name) for name in ("customers", "orders", "prices")]
        folders += [self.workspace.lake.file_status(name) for name in ("customers", "orders", "prices")]
        uri = self.chance.choice(folders)
        table = DeltaTable(uri)
        paths = table.get_add_actions().column("path").to_pylist()
        return self._of_file(Path(uri), Path(uri, unquote(self.chance.choice(paths))))

    def log_entry(self) -> Damage:
        """Damages an entry of a table's log which its readers need."""
        name = self.chance.choice(self.tables)
        log = Path(self.workspace.uri(name), "_delta_log")
        entries = sorted(log.glob("*.json"))
        # The oldest entry before a checkpoint is what Delta cleans away by itself.
        entries = entries[1:] if any(log.glob("*.checkpoint.parquet")) else entries
        entry = self.chance.choice(entries)
        damage = self._of_file(log.parent, entry)
        if entry == entries[-1] and not entry.exists():
            # The table is as before its newest commit, which a run repeats.
            return Damage(damage.what, damage.names, frozenset({"wrong", "behind"}))
        return damage

    def checkpoint(self) -> Damage:
        """Damages the checkpoint of a table."""
        name = self.chance.choice(["orders", "orders_clean", "by_customer"])
        [checkpoint] = Path(self.workspace.uri(name), "_delta_log").glob("*.checkpoint.parquet")
        return self._of_file(Path(self.workspace.uri(name)), checkpoint)

    def landed(self) -> Damage:
        """Damages a file in landing, or in the archive."""
        folders = (self.workspace.folder / name for name in ("landing", "archive"))
        path = self.chance.choice(sorted(file for one in folders for file in one.rglob("*.*") if file.is_file()))
        name = {".csv": "customers", ".parquet": "prices"}.get(path.suffix, "orders")
        if path.suffix not in (".csv", ".json") or self.chance.random() < 0.5:
            how = self._damage_file(path)
            if "archive" in path.parts and how != "gone":
                return Damage(f"{path}: {how}", frozenset({name}))
            # Whoever owns the folder may have done it: the rows are as they were, and the file cannot say so any more.
            return Damage(f"{path}: {how}", frozenset({name}), frozenset({"wrong", "unseen"}))
        content, about = path.read_bytes(), path.stat()
        place = self.chance.choice([n for n, byte in enumerate(content) if 48 <= byte <= 56])
        path.write_bytes(content[:place] + bytes([content[place] + 1]) + content[place + 1 :])
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
        return Damage(f"{path}: another digit at {place}", frozenset({name}))

    def _of_file(self, table: Path, path: Path) -> Damage:
        how = self._damage_file(path)
        home = table.name if table.parent.name in ("bronze", "silver", "gold") else f"{table.parent.name}/{table.name}"
        return Damage(f"{path}: {how}", frozenset({home, *_named_for(table.name)}))

    def _damage_file(self, path: Path) -> str:
        how, size = self.chance.choice(["gone", "empty", "shorter"]), path.stat().st_size
        if how == "gone":
            path.unlink()
        else:
            os.truncate(path, 0 if how == "empty" else self.chance.randrange(1, size - 1))
        return how


def of_table(name: str, what: str) -> Damage:
    # Of a choice among rows that really are equal nobody can say which was right.
    kinds = {"wrong", "unproved"} if name == "tied" else {"wrong"}
    return Damage(what, _named_for(name), frozenset(kinds))


def _named_for(name: str) -> frozenset[str]:
    """Names by which a table, or the side table of one, is told."""
    return frozenset({name, name.removesuffix("_quarantine").removesuffix("_set_aside")})


def without(rows: pa.Table, row: int) -> pa.Table:
    """Rows without one of them."""
    return pa.concat_tables([rows.slice(0, row), rows.slice(row + 1)])


def with_value(rows: pa.Table, row: int, column: str, value: Any) -> pa.Table:
    """Rows of which one has another value."""
    values = rows[column].to_pylist()
    values[row] = value
    kind = rows.schema.field(column)
    return rows.set_column(rows.schema.get_field_index(column), kind, pa.array(values, kind.type))


def another(value: Any, kind: pa.DataType) -> Any:
    """A value of the same type that differs in one small thing."""
    if value is None:
        return _any(kind)
    if isinstance(value, list):
        return value[:-1] if value else [_any(kind.value_type)]
    if isinstance(value, dict):
        name = next(iter(value))
        return value | {name: another(value[name], kind.field(name).type)}
    return _another_scalar(value)


def _another_scalar(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case Decimal():
            return value + Decimal(1).scaleb(int(value.as_tuple().exponent))
        case datetime():
            return value + timedelta(microseconds=1)
        case date():
            return value + timedelta(days=1)
        case bytes():
            return value + b"!"
    return f"{value}!"


def _any(kind: pa.DataType) -> Any:
    """Some value of a type."""
    if pa.types.is_list(kind):
        return [_any(kind.value_type)]
    if pa.types.is_struct(kind):
        return {field.name: _any(field.type) for field in kind}
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "x"
    if pa.types.is_binary(kind):
        return b"x"
    if pa.types.is_decimal(kind):
        return Decimal(1)
    number = pa.scalar(1, pa.int32() if pa.types.is_date32(kind) else pa.int64())
    return number.cast(kind).as_py()
