"""What files say of themselves without being read: the footers of Parquet and ORC, the head of Avro, a CSV header."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any

from sluicegate import avro, stores

# What opening a file, and a look into it, raises where it is gone or broken.
BROKEN = (OSError, EOFError, ValueError, LookupError, TypeError, csv.Error)


def footer(path: str, form: str) -> dict[str, Any]:
    """What a Parquet, ORC or Avro file says of its columns (``fields``) and of its records (``records``; Avro: None).

    Or what is wrong with it (``error``).
    """
    import pyarrow as pa
    from pyarrow import orc, parquet

    try:
        with stores.reader(path) as file:
            if form == "avro":
                return {"fields": avro.schema(file), "records": None}
            if form == "parquet":
                about = parquet.read_metadata(file)
                found, records = about.schema.to_arrow_schema(), about.num_rows
            else:
                opened = orc.ORCFile(file)
                found, records = opened.schema, opened.nrows
            # Not what else it says of itself, which may be another word in each file.
            fields = found.to_string(show_field_metadata=False, show_schema_metadata=False)
            return {"fields": str(fields), "records": int(records)}
    except (*BROKEN, pa.ArrowException) as error:
        return {"error": _told(error)}


def header(path: str, options: Mapping[str, str], separator: str) -> dict[str, Any]:
    """The names in the first line of a CSV file (``fields``), or what is wrong with it (``error``).

    Args:
        path: the file.
        options: the reader's options by their names in small letters.
        separator: one character.
    """
    encoding = options.get("encoding", options.get("charset", "utf-8")).lower()
    comment, quote = options.get("comment"), options.get("quote", '"')
    try:
        with stores.reader(
            path, "rt", "infer", newline="",
            encoding="utf-8-sig" if encoding in ("utf-8", "utf8") else encoding,
        ) as file:  # fmt: skip
            lines = (line for line in file if not (comment and line.startswith(comment)))
            style: dict[str, Any] = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
            rows = csv.reader(lines, delimiter=separator, **style)
            names = next((row for row in rows if any(name.strip() for name in row)), [])
    except BROKEN as error:
        return {"error": _told(error)}
    front, back = (options.get(f"ignore{side}whitespace", "").lower() == "true" for side in ("leading", "trailing"))
    names = [name.lstrip() if front else name for name in names]
    return {"fields": [name.rstrip() if back else name for name in names]}


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
