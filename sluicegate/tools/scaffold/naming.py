"""Names and texts of a user's files, made safe for a definition, SQL, and comments in both."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

import yaml
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from sluicegate.definition.fields import IDENTIFIER
from sluicegate.definition.tables.column_names import normalize_name
from sluicegate.spark_sql.engine_columns import RESERVED
from sluicegate.spark_sql.identifiers import quote_name
from sluicegate.spark_sql.types import REFUSED

# Type names that are also common column names, and mean the column wherever one can be.
_PLAIN = {"date", "time", "name", "day", "index", "comment", "text", "percent"}


def table_name(text: str) -> str:
    """Table name made from a file's or folder's name; empty if no character can be used."""
    name = _ascii(text).lower().strip("_")
    name = re.sub(r"^[0-9_]+", "", name) or (f"t_{name}" if name else "")
    while name.endswith(("_quarantine", "_deidentified")):
        name = name.rpartition("_")[0]
    return name[:60].rstrip("_")


def column_name(field: str, number: int, taken: Collection[str]) -> str:
    """Name of a silver column for a field of the files.

    Args:
        field: the field's name.
        number: its position among the fields, counted from 1.
        taken: lower-case names that other columns have.
    """
    if re.fullmatch(r"_c[0-9]+", field):
        name = ""
    else:
        name = normalize_name(field)
    name = name or f"column_{number}"
    free, count = name, 2
    while free.lower() in taken:
        free, count = f"{name}_{count}", count + 1
    return free


def _ascii(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.replace("ß", "ss")).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "_", plain)


def words(name: str) -> list[str]:
    """Words of a name in lower case: those of ``orderId`` and ``order_id`` are the same."""
    return [word for word in re.split(r"[\W_]+", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()) if word]


def can_be_hinted(field: str) -> bool:
    """Whether a field inside of a column can be called so in a hint."""
    return bool(field) and not REFUSED & set(field) and field.lower() not in RESERVED


def can_be_quoted(field: str) -> bool:
    """Whether a field's name can be written in SQL: no line breaks or the like are in it."""
    return field.replace("\xa0", " ").isprintable() and field != ""


def ident(name: str) -> str:
    """Identifier for SQL, in backticks where it needs them."""
    if IDENTIFIER.fullmatch(name) and (name.lower() in _PLAIN or _is_word(name)):
        return name
    return quote_name(name)


def _is_word(name: str) -> bool:
    try:
        tokens = Spark().tokenize(name)
    except TokenError:
        return False
    return len(tokens) == 1 and tokens[0].token_type == TokenType.VAR


def scalar(text: str) -> str:
    """Scalar for YAML, in quotes where it needs them."""
    if re.fullmatch(r"[A-Za-z_]\w*(\.sql)?", text, re.ASCII) and yaml.safe_load(text) == text:
        return text
    return str(yaml.dump(text, default_style='"', allow_unicode=True, width=1 << 30)).strip()


def comment_text(text: str, most: int = 100) -> str:
    """Text for a comment: one line, at most ``most`` characters.

    A backslash at the end of a comment would make Spark take the next line into it.
    """
    plain = "".join(char if char.isprintable() else "�" for char in text).replace("\\", "/")
    if len(plain) <= most:
        return plain
    return plain[: most - 1] + "…"
