"""Group Parquet files that Spark reads only with a given schema."""

from __future__ import annotations

from collections import Counter

from pyspark.sql.types import StructField

from sluicegate.bronze.file_groups import Group
from sluicegate.bronze.parquet import fields, footer_schema
from sluicegate.bronze.parquet.fields import UnreadableField
from sluicegate.bronze.parquet.footer_schema import SchemaNode
from sluicegate.bronze.parquet.stored import Stored


def refused_group(paths: list[str]) -> Group:
    """Return a group of files with types that Spark refuses.

    Args:
        paths: the files, all with the fields of the first.

    Raises:
        OSError: the first file cannot be read.
        ValueError: the first file is not Parquet.
    """
    return _group(footer_schema.read(paths[0]).children, paths)


def unforeseen_group(paths: list[str]) -> Group | None:
    """Return a group of files that Spark refuses; None if their types do not explain it."""
    try:
        group = refused_group(paths)
    except (OSError, ValueError):
        return None
    if not (group.unreadable or group.stored):
        return None
    return group


def _group(nodes: tuple[SchemaNode, ...], paths: list[str]) -> Group:
    kinds: dict[str, Stored] = {}
    unreadable: dict[str, str] = {}
    times = Counter(node.name for node in nodes)
    for node in nodes:
        if fields.is_void(node):
            continue
        try:
            if times[node.name] > 1:
                raise UnreadableField(f"there are {times[node.name]} columns of this name")
            kinds[node.name] = fields.stored_field(node)
        except UnreadableField as error:
            unreadable[node.name] = f"not read: {error}"
    readable = [StructField(name, kind.type) for name, kind in kinds.items()]
    meant = {name: kind for name, kind in kinds.items() if not kind.is_plain}
    return Group(readable, paths, stored=meant, unreadable=unreadable)
