"""Damages of further kinds: of a value by what it lacks, of side tables, of single actions of a log, of the archive."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyarrow import parquet

from tests.support.damage_world import (
    UNTOLD,
    Damage,
    Damages,
    another,
    of_table,
    with_value,
    without,
)

BRONZE = ("customers", "orders", "prices")

# The digits of Base85 that stand for 0 to 84.
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


class OtherDamages(Damages):
    """Damages by chance, of kinds that ``Damages`` does not have."""

    @property
    def kinds(self) -> list[Callable[[], Damage]]:
        return [
            self.emptied, self.emptied, self.exchanged, self.exchanged, self.reversed, self.outcome, self.archive_entry,
            self.side_file, self.action, self.action, self.deletion_vector, self.unknown_in_archive,
            self.replaced_in_archive,
        ]  # fmt: skip

    # --- values ------------------------------------------------------------------------------------------------------

    def emptied(self, table: str = "") -> Damage:
        """Makes NULL of a value, or an empty value of NULL."""
        name, path, rows = self._some_rows(table)
        column = self.chance.choice(_compared_columns(rows))
        row = self.chance.randrange(rows.num_rows)
        value = emptied(rows[column][row].as_py(), rows.schema.field(column).type)
        how = self._replace(name, path, with_value(rows, row, column, value))
        return of_table(name, f"{column} of row {row} of {name} is {value!r}, {how}")

    def exchanged(self, table: str = "") -> Damage:
        """Exchanges the values that two rows have in a column."""
        while True:
            name, path, rows = self._some_rows(table)
            column = self.chance.choice(_compared_columns(rows))
            values = rows[column].to_pylist()
            first, second = self.chance.randrange(len(values)), self.chance.randrange(len(values))
            others = [another_column for another_column in _compared_columns(rows) if another_column != column]
            if values[first] != values[second] and _differ(rows, first, second, others):
                break
        changed = with_value(with_value(rows, first, column, values[second]), second, column, values[first])
        how = self._replace(name, path, changed)
        return of_table(name, f"{column} of rows {first} and {second} of {name} is exchanged, {how}")

    def reversed(self) -> Damage:
        """Reverses an array of several values."""
        places = []
        for name in self.tables:
            for path in self._data_files(name):
                rows = parquet.ParquetFile(path).read()
                for column in _compared_columns(rows):
                    for row, value in enumerate(rows[column].to_pylist()):
                        if isinstance(value, list) and value != value[::-1]:
                            places.append((name, path, column, row, value[::-1]))
        name, path, column, row, value = self.chance.choice(places)
        how = self._replace(name, path, with_value(parquet.ParquetFile(path).read(), row, column, value))
        return of_table(name, f"{column} of row {row} of {name} is {value!r}, {how}")

    def _some_rows(self, table: str) -> tuple[str, Path, pa.Table]:
        name = table or self.chance.choice(self.tables)
        return name, *self._rows(name)

    # --- tables beside bronze ----------------------------------------------------------------------------------------

    def outcome(self) -> Damage:
        """Damages an entry of what became of the files of a table. The next run adds one that is lost."""
        name = self.chance.choice(BRONZE)
        columns = ["path", "chunk", "rows", "corrupt", "rescued"]
        return self._entry(name, self.workspace.lake.file_status(name), columns, "behind")

    def archive_entry(self) -> Damage:
        """Damages an entry of what was taken from landing: without it nobody can tell where a file is."""
        uri = f"{self.workspace.lake.ledger('orders')}_archive"
        return self._entry("orders", uri, ["path", "size", "modification_time", "place"], "unseen")

    def _entry(self, name: str, uri: str, columns: list[str], if_lost: str) -> Damage:
        rows = DeltaTable(uri).to_pyarrow_table()
        row, column = self.chance.randrange(rows.num_rows), self.chance.choice([*columns, ""])
        kinds = {"wrong"} if column not in ("", "place") else {"wrong", if_lost}
        if column:
            value = another(rows[column][row].as_py(), rows.schema.field(column).type)
            rows = with_value(rows, row, column, value)
        else:
            rows = without(rows, row)
        write_deltalake(uri, rows, mode="overwrite")
        what = f"{column or 'all'} of entry {row} of {uri.rpartition('/')[2]}"
        return Damage(f"{what} is {'another' if column else 'gone'}", frozenset({name}), frozenset(kinds))

    def side_file(self) -> Damage:
        """Damages a data file or log entry of a table of the pipeline's own."""
        lake = Path(self.workspace.lake.ledger("orders")).parent.parent
        folders = [
            lake / "_events",
            lake / "_ledger" / "orders_archive",
            *(lake / "_schemas" / name for name in BRONZE),
        ]
        folder = self.chance.choice([one for one in folders if (one / "_delta_log").is_dir()])
        paths = [unquote(path) for path in DeltaTable(str(folder)).get_add_actions().column("path").to_pylist()]
        logs = sorted((folder / "_delta_log").glob("*.json"))[:-1]
        file = self.chance.choice([*(folder / path for path in paths), *logs])
        damage = self._of_file(folder, file)
        return Damage(damage.what, frozenset({*damage.names, folder.name, f"heart_rate/{folder.name}"}), damage.kinds)

    # --- actions of a log --------------------------------------------------------------------------------------------

    def action(self) -> Damage:
        """Takes an action of a log entry away, or changes a number in it; no checksum tells."""
        name = self.chance.choice(self.tables)
        log = Path(self.workspace.uri(name), "_delta_log")
        entries = sorted(log.glob("*.json"))
        pointer = log / "_last_checkpoint"
        first = json.loads(pointer.read_text())["version"] + 1 if pointer.exists() else 0
        live = set(DeltaTable(str(log.parent)).get_add_actions().column("path").to_pylist())
        places = [
            (entry, place)
            for entry in entries
            if int(entry.stem) >= first
            for place, line in enumerate(map(json.loads, entry.read_text().splitlines()))
            if "remove" in line or ("add" in line and unquote(line["add"]["path"]) in live)
        ]
        entry, place = self.chance.choice(places)
        lines = [json.loads(line) for line in entry.read_text().splitlines()]
        kind = next(iter(lines[place]))
        if kind == "add" and self.chance.random() < 0.5:
            stats = json.loads(lines[place]["add"]["stats"])
            stats["numRecords"] += 1
            lines[place]["add"]["stats"] = json.dumps(stats)
            how = "has another number of rows"
        else:
            del lines[place]
            how = "is gone"
        entry.write_text("\n".join(map(json.dumps, lines)) + "\n")
        entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)
        return of_table(name, f"{kind}, action {place} of {entry}, {how}")

    def deletion_vector(self, table: str = "") -> Damage:
        """Takes a row away by a deletion vector, which stands in the log: the data file stays as it was."""
        name = table or self.chance.choice(self.tables)
        path, rows = self._rows(name)
        row = self.chance.randrange(rows.num_rows)
        log = path.parent / "_delta_log"
        lines = [json.loads(line) for entry in sorted(log.glob("*.json")) for line in entry.read_text().splitlines()]
        protocol = next(line["protocol"] for line in reversed(lines) if "protocol" in line)
        writer = {"deletionVectors", "appendOnly", "invariants", "changeDataFeed", *protocol.get("writerFeatures", [])}
        reader = {"deletionVectors", *protocol.get("readerFeatures", [])}
        upgraded = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": sorted(reader)}
        vector = {"storageType": "i", "pathOrInlineDv": _z85(_bitmap(row)), "sizeInBytes": 34, "cardinality": 1}
        stats = json.dumps({"numRecords": rows.num_rows, "tightBounds": False})
        self._commit(path, path, rows.num_rows)
        entry = max(log.glob("*.json"))
        info, remove, add = (json.loads(line) for line in entry.read_text().splitlines())
        add["add"] |= {"deletionVector": vector, "stats": stats}
        actions = [info, {"protocol": upgraded | {"writerFeatures": sorted(writer)}}, remove, add]
        entry.write_text("\n".join(map(json.dumps, actions)) + "\n")
        return of_table(name, f"row {row} of {path} is in a deletion vector")

    # --- the archive -------------------------------------------------------------------------------------------------

    def unknown_in_archive(self) -> Damage:
        """Lays a file into the archive that no run has moved there."""
        path = self.workspace.folder / "archive" / "strange.json"
        path.write_text('{"id": 9}\n')
        return Damage(f"{path} is in the archive", frozenset({"orders"}))

    def replaced_in_archive(self) -> Damage:
        """Replaces a file of the archive by another of the same size, and perhaps the same time."""
        path = self.chance.choice(sorted((self.workspace.folder / "archive").rglob("*.json")))
        content, about = path.read_bytes(), path.stat()
        path.write_bytes(content.replace(b'"customer": ', b'"customer":-'))
        how = "of now"
        if self.chance.random() < 0.5:
            os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
            how = "of the same time"
        return Damage(f"{path} is another file {how}", frozenset({"orders"}))


def _bitmap(row: int) -> bytes:
    """A bitmap of one row, as a deletion vector has it: magic number, number of bitmaps, key, and a Roaring bitmap.

    https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-format
    """
    roaring = struct.pack("<IIHHIH", 12346, 1, 0, 0, 16, row)
    return struct.pack("<IQI", 1681511377, 1, 0) + roaring


def _z85(data: bytes) -> str:
    """Bytes in the Base85 of ZeroMQ, by which Delta has them in its log."""
    text = ""
    for place in range(0, len(data), 4):
        number, digits = int.from_bytes(data[place : place + 4].ljust(4, b"\0"), "big"), ""
        for _ in range(5):
            number, digit = divmod(number, 85)
            digits = Z85[digit] + digits
        text += digits
    return text


def _compared_columns(rows: pa.Table) -> list[str]:
    return [name for name in rows.schema.names if name not in UNTOLD]


def _differ(rows: pa.Table, first: int, second: int, columns: list[str]) -> bool:
    """Whether rows that differ in one column differ in others, too: else they are what they were, in another order."""
    return any(rows[column][first].as_py() != rows[column][second].as_py() for column in columns)


def emptied(value: Any, kind: pa.DataType) -> Any:
    """NULL for a value, and an empty value for NULL."""
    if value is not None:
        return None
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return []
    if pa.types.is_struct(kind):
        return {field.name: None for field in kind}
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return ""
    if pa.types.is_binary(kind):
        return b""
    if pa.types.is_floating(kind):
        return -0.0
    return another(value, kind)
