"""Commit a table's comments and properties by Spark, without changes to rows or columns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sluicegate.lake.table_description import NOTE, Change
from sluicegate.spark.commit_settings import NOTHING
from sluicegate.spark.session import override_settings
from sluicegate.spark_sql.identifiers import literal, quote_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


def describe(session: SparkSession, uri: str, change: Change, before: str | None) -> None:
    """Apply a change of description to a table in as few commits as it needs: usually one.

    After a kill between two commits, the next run compares again and does the rest. The note on what comes from the
    definition lists, from the first commit on, also what has to be removed, so that it is not forgotten.

    Args:
        session: the session.
        uri: the table.
        change: changes to make.
        before: present note of the table.
    """
    name = f"delta.{quote_name(uri)}"
    properties, last = dict(change.properties), None
    if change.comment is not None:
        properties["comment"] = change.comment
    if "" in change.columns.values() or change.removed or change.comment == "":
        last = properties.pop(NOTE, None)
    if last is not None:
        properties[NOTE] = _merge_notes(before, last)
    with override_settings(session, NOTHING):
        if properties:
            session.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({_property_list(properties)})")
        if change.columns:
            columns = ", ".join(
                f"{quote_name(column)} COMMENT {_text(text)}" for column, text in change.columns.items()
            )
            session.sql(f"ALTER TABLE {name} ALTER COLUMN {columns}")
        if change.removed:
            session.sql(f"ALTER TABLE {name} UNSET TBLPROPERTIES ({', '.join(map(literal, change.removed))})")
        if last is not None:
            session.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({_property_list({NOTE: last})})")


def _property_list(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{literal(name)} = {_text(text)}" for name, text in properties.items())


def _text(text: str) -> str:
    """Return a literal in which Spark substitutes nothing: a landed name may contain ``${env:HOME}``."""
    return literal(text).replace("${", "$\\{")


def _merge_notes(before: str | None, after: str) -> str:
    """Merge two notes."""
    note, other = json.loads(before or "{}"), json.loads(after)
    both = {
        "comment": bool(note.get("comment") or other.get("comment")),
        **{kind: sorted({*note.get(kind, ()), *other.get(kind, ())}) for kind in ("columns", "properties")},
    }
    return json.dumps({name: value for name, value in both.items() if value})
