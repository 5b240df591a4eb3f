"""Rows of a bronze table that is read again: from files that were moved since, and beside rows that stay."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from sluicegate import archive, lake, stores
from sluicegate.schema import PROVENANCE, RESCUED
from sluicegate.values import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

# What Spark writes as %XX in the name of a file.
ENCODED = re.compile(r"""[\x00-\x20"%<>\\^`{|}\[\]#?]""")

# The ledger's path of a file, from the name that Spark gives it: as ``lake.canonical``.
CANONICAL = "regexp_replace(url_decode(replace(source_file, '+', '%2B')), '^file:/+', '/')"


@dataclass
class Places:
    """Where the files lie that ``cleanSource`` took away, for when they are to be read again.

    Attributes:
        at: the lake.
        name: the bronze table.
    """

    at: lake.Lake
    name: str
    found: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _archived(self) -> dict[archive.Facts, dict[str, Any]]:
        return archive.by_facts(self.at, self.name)

    def find(self, entries: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, bool]]:
        """Looks for the files of some entries of the ledger.

        Returns:
            those that were taken away and lie nowhere any more, with the reason and whether to try again.
        """
        self.found, lost = {}, {}
        for entry in entries:
            row = self._archived.get(archive.facts_of(entry))
            if row is None or stores.file(entry["path"]) == (entry["size"], entry["modification_time"]):
                continue
            if row["place"] and stores.file(row["place"]):
                self.found[entry["path"]] = row["place"]
            else:
                lost[entry["path"]] = (_lost(row), True)
        return lost

    def of(self, path: str) -> str:
        """Where to read the file with this path in the ledger."""
        return self.found.get(path, path)

    def named(self, frame: DataFrame, paths: Sequence[str]) -> DataFrame:
        """Records read from there, with the names that their files had when they landed."""
        names = {place: path for path, place in self.found.items() if path in set(paths)}
        if not names:
            return frame
        pairs = [F.lit(text) for place, path in names.items() for text in (_canonical(place), _as_spark_names(path))]
        former = F.create_map(*pairs)[F.expr(CANONICAL)]
        columns = [
            F.coalesce(former, F.col("source_file")).alias("source_file") if c == "source_file" else F.col(quoted(c))
            for c in frame.columns
        ]
        return frame.select(*columns)


def _lost(row: Mapping[str, Any]) -> str:
    when = row["archived"].strftime("%Y-%m-%d %H:%M")
    if row["mode"] == "MOVE":
        return f"it was moved to {row['place']} on {when}, and is not there"
    return f"it was deleted by cleanSource on {when}" if row["mode"] == "DELETE" else f"it was gone on {when}"


def _canonical(place: str) -> str:
    return lake.local_path(place) if lake.is_local(place) else place


def _as_spark_names(path: str) -> str:
    text = ENCODED.sub(lambda match: f"%{ord(match.group()):02X}", path)
    return f"file://{text}" if path.startswith("/") else text


def union(new: DataFrame, kept: DataFrame) -> DataFrame:
    """New rows and kept ones. What of a kept row does not fit the new columns goes into ``_rescued_data``."""
    types = {field.name.lower(): (field.name, field.dataType) for field in new.schema}
    columns: list[Column] = []
    misfits: list[Column] = []
    for old in kept.schema:
        if old.name in PROVENANCE:
            continue
        column = F.col(quoted(old.name))
        name, kind = types.get(old.name.lower(), (old.name, old.dataType))
        fitted, fits = _fitted(column, old.dataType, kind)
        columns.append(fitted.alias(name))
        if fits is not None:
            misfits.append(F.when(~fits, column).alias(old.name))
    ours = [F.col(name) for name in PROVENANCE if name in kept.columns and name != RESCUED]
    rescued = _rescued(misfits) if misfits else F.col(RESCUED)
    both = new.unionByName(kept.select(*columns, rescued.alias(RESCUED), *ours), allowMissingColumns=True)
    last = [column for column in PROVENANCE if column in both.columns]
    return both.select(*[quoted(column) for column in both.columns if column not in last], *last)


def _fitted(column: Column, old: DataType, new: DataType) -> tuple[Column, Column | None]:
    """A value in its new type, and whether nothing of it is lost by that; None where nothing can be."""
    from pyspark.sql.types import AtomicType, StringType, VariantType

    if old == new:
        return column, None
    plain = all(isinstance(kind, AtomicType) and not isinstance(kind, VariantType) for kind in (old, new))
    if not plain:
        return F.lit(None).cast(new), column.isNull()
    value = column.try_cast(new)
    fits = value.isNotNull() | column.isNull()
    if not isinstance(old, StringType):
        fits = fits & value.try_cast(old).eqNullSafe(column)
    return F.when(fits, value), fits


def _rescued(misfits: Sequence[Column]) -> Column:
    """The rescued data of a kept row with the misfits added; NULL members are left out of JSON by Spark."""
    held = F.col(RESCUED)
    more = F.to_json(F.struct(*misfits))
    with_file = F.to_json(F.struct(*misfits, F.col("source_file").alias("_file_path")))
    added = F.concat(
        F.expr(f"substring({RESCUED}, 1, length({RESCUED}) - 1)"), F.lit(","), F.substring(more, 2, 1 << 30)
    )
    return F.when(more == "{}", held).otherwise(F.when(held.isNull(), with_file).otherwise(added))
