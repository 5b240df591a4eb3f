"""Landed files: rows as CSV, JSON lines, Parquet or text."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

Row = Mapping[str, Any]
Rows = Mapping[str, Sequence[Row]]
"""Rows of each table that land together."""

CENTS = pa.decimal128(15, 2)


@dataclass(frozen=True)
class Form:
    """How the rows of a table land.

    Attributes:
        suffix: ``csv``, ``json``, ``parquet`` or ``txt``; lines of text have the one column ``value``.
        separator: of CSV.
        schema: of Parquet.
    """

    suffix: Literal["csv", "json", "parquet", "txt"]
    separator: str = ","
    schema: pa.Schema | None = None


def cents(amount: int) -> Decimal:
    """An amount of money."""
    return Decimal(amount).scaleb(-2)


def land(landing: Path, rows: Rows, forms: Mapping[str, Form], name: str) -> list[Path]:
    """Writes a file for each table that has rows, and says that it settled a minute ago.

    Args:
        landing: folder with a folder for each table.
        rows: the rows by table.
        forms: the form of each table.
        name: name of the files, without a suffix.
    """
    return [_file(landing / table / f"{name}.{forms[table].suffix}", its, forms[table])
            for table, its in rows.items() if its]  # fmt: skip


def settle(files: Iterable[Path], moment: float) -> None:
    """Sets the time of files."""
    for file in files:
        os.utime(file, (moment, moment))


def _file(path: Path, rows: Sequence[Row], form: Form) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if form.suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(list(rows), schema=form.schema), path)
        return path
    with path.open("w", newline="") as file:
        if form.suffix == "csv":
            writer = csv.DictWriter(file, list(rows[0]), delimiter=form.separator, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.writelines(_lines(rows, form))
    return path


def _lines(rows: Sequence[Row], form: Form) -> Iterator[str]:
    for row in rows:
        yield (row["value"] if form.suffix == "txt" else json.dumps(row, default=_text)) + "\n"


def _text(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"no JSON for {value!r}")
