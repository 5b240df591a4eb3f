"""One table: its columns, a sample, its history, its rules over time, its query and its files."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from deltalake import DeltaTable

from sluicegate.dashboard import batches, column_links, discarded, personal
from sluicegate.dashboard.batches import CommittedBatch, RuleCount
from sluicegate.dashboard.column_links import ColumnLink, ColumnLinks
from sluicegate.dashboard.flow_graph import place_of
from sluicegate.dashboard.source import Source
from sluicegate.definition import Pipeline
from sluicegate.definition.tables.table import LAYERS
from sluicegate.errors import PipelineMissing, SluicegateError
from sluicegate.lake import tables
from sluicegate.monitor import status
from sluicegate.schema import history as schema_history
from sluicegate.schema.columns import ENGINE_COLUMNS, PROVENANCE

SAMPLE_ROWS = 10
"""Rows of a sample."""

SAMPLE_COLUMNS = 30
"""Columns of a sample: of a thousand a page would be of no use."""

SMALL = 16_000_000
"""Bytes below which a data file counts as small."""


@dataclass(frozen=True)
class ColumnSummary:
    """A column.

    Attributes:
        name: its name.
        kind: its type, as in DDL.
        comment: what it is.
        pii: whether the definition marks it as personal data.
        of_engine: whether the engine adds it.
        rules: names of the expectations that refer to it.
        reads: columns that it is computed from.
        used_by: columns of other tables that it goes into, or decides about.
    """

    name: str
    kind: str
    comment: str = ""
    pii: bool = False
    of_engine: bool = False
    rules: tuple[str, ...] = ()
    reads: tuple[ColumnLink, ...] = ()
    used_by: tuple[ColumnLink, ...] = ()


@dataclass(frozen=True)
class SampleRows:
    """Some rows, as texts.

    Attributes:
        columns: names of their columns.
        rows: their values, hidden where they may be personal data.
        hidden: columns whose values are hidden.
        left_out: number of further columns.
    """

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    hidden: tuple[str, ...] = ()
    left_out: int = 0


@dataclass(frozen=True)
class RuleHistory:
    """An expectation, or a rule about the whole table.

    Attributes:
        name: its name.
        text: the condition, as written, or the rule in words.
        action: what is done about a row that breaks it; ``refuse`` of a rule about the whole table.
        warn_above: above how many rows the run warns.
        fail_above: above how many rows the run fails.
        points: share of rows that passed, a batch each, oldest first; None where there were no rows.
        passed: rows that passed, of all these batches.
        failed: rows that failed.
    """

    name: str
    text: str
    action: str
    warn_above: str = ""
    fail_above: str = ""
    points: tuple[float | None, ...] = ()
    passed: int = 0
    failed: int = 0

    @property
    def rate(self) -> float | None:
        """Share of rows that passed."""
        return RuleCount(self.name, self.passed, self.failed).rate


@dataclass(frozen=True)
class SchemaVersion:
    """A version of a bronze table from which it has other columns.

    Attributes:
        version: the version.
        since: when it was committed (UTC).
        changes: what changed, in words.
    """

    version: int
    since: datetime
    changes: str


@dataclass(frozen=True)
class TableDetails:
    """One table.

    Attributes:
        pipeline: its pipeline.
        layer: bronze, silver or gold.
        name: its name.
        comment: what it is.
        owner: who answers for the pipeline.
        tags: its tags.
        exists: whether a run has made it.
        problem: why it cannot be read.
        rows: its rows.
        bytes: bytes of its data files.
        files: its data files.
        small_files: those of less than ``SMALL`` bytes.
        version: its version.
        changed: when a run last changed it (UTC).
        columns: its columns.
        rows_by: columns that decide which rows it has.
        unsure: why it is not certain what its columns are computed from.
        searching: whether other pipelines are still being read for columns that use its own.
        sample: its newest rows; None where the viewer may read none.
        history: its last batches, oldest first.
        rules: its rules, worst first.
        sql: its query, as written.
        python: its Python function.
        source: for a bronze table, what it reads.
        strategy: how a gold table is kept up to date.
        because: why so.
        upstream: tables that it reads, each with ``stream`` or ``lookup``.
        downstream: tables that read it.
        quarantined: records that wait in its quarantine.
        rejected: rows for which its newest batch was refused.
        mixed: whether it may have rows of a former definition.
        drift: versions of a bronze table that changed its columns, newest first.
    """

    pipeline: str
    layer: str
    name: str
    comment: str = ""
    owner: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    exists: bool = False
    problem: str = ""
    rows: int = 0
    bytes: int = 0
    files: int = 0
    small_files: int = 0
    version: int | None = None
    changed: datetime | None = None
    columns: tuple[ColumnSummary, ...] = ()
    rows_by: tuple[ColumnLink, ...] = ()
    unsure: str = ""
    searching: bool = False
    sample: SampleRows | None = None
    history: tuple[CommittedBatch, ...] = ()
    rules: tuple[RuleHistory, ...] = ()
    sql: str = ""
    python: str = ""
    source: str = ""
    strategy: str = ""
    because: str = ""
    upstream: tuple[tuple[str, str], ...] = ()
    downstream: tuple[str, ...] = ()
    quarantined: int = 0
    rejected: int = 0
    mixed: bool = False
    drift: tuple[SchemaVersion, ...] = ()


def table_details(
    source: Source, pipeline: Pipeline, name: str, *, rows: bool = True, readable: Collection[str] = ()
) -> TableDetails:
    """Return one table, as far as it can be read.

    Args:
        source: the source of the lake's tables.
        pipeline: the definition.
        name: the table.
        rows: True if the viewer may read rows.
        readable: other pipelines whose tables and columns the viewer may see.

    Raises:
        PipelineMissing: there is no such table.
    """
    layer = layer_of(pipeline, name)
    about = _definition_facts(pipeline, layer, name)
    try:
        facts = _read(source, pipeline, layer, name, rows=rows)
    except SluicegateError as error:
        facts = {"problem": error.message}
    history: tuple[CommittedBatch, ...] = facts.pop("history", ())
    if "columns" in facts:
        facts |= _link_columns(column_links.links(source, pipeline, name, readable), facts["columns"])
    of_run = {}
    if history:
        of_run = {"strategy": history[-1].strategy, "because": history[-1].because, "mixed": history[-1].mixed}
    return TableDetails(
        pipeline.name, layer, name, history=history, rules=tuple(_rules(pipeline, name, history)),
        **(about | of_run | facts),
    )  # fmt: skip


def _link_columns(links: ColumnLinks, columns: Sequence[ColumnSummary]) -> dict[str, Any]:
    """Return the view's fields for columns, each with its sources and uses."""
    linked = tuple(
        replace(
            column, reads=links.reads.get(column.name.lower(), ()), used_by=links.used_by.get(column.name.lower(), ())
        )
        for column in columns
    )
    return {"columns": linked, "rows_by": links.rows, "unsure": links.unsure, "searching": links.searching}


def layer_of(pipeline: Pipeline, name: str) -> str:
    """Return the layer of a table, de-identified tables included.

    Raises:
        PipelineMissing: there is no such table.
    """
    layer = next((layer for layer in LAYERS if name in pipeline.names(layer)), None)
    if layer is None:
        raise PipelineMissing(f"unknown table of the pipeline {pipeline.name}")
    return layer


def _definition_facts(pipeline: Pipeline, layer: str, name: str) -> dict[str, Any]:
    about: dict[str, Any] = {"owner": pipeline.owner}
    downstream = [other for of in LAYERS for other in pipeline.names(of) if name in pipeline.reads(other)]
    about["downstream"] = tuple(downstream)
    if name in pipeline.deidentified_tables:
        return about | {"upstream": ((pipeline.deidentified_tables[name], "stream"),)}
    table: Any = pipeline.table(name)[1]
    about |= {"comment": table.comment, "tags": dict(table.tags)}
    if layer == "bronze":
        return about | {"source": f"{table.format} {place_of(table)}"}
    if layer == "silver":
        streams = table.streams
    else:
        streams = pipeline.reads(name)[:1]
    about["upstream"] = tuple((read, "stream" if read in streams else "lookup") for read in pipeline.reads(name))
    return about | {"sql": _sql(pipeline, table), "python": table.python or ""}


def _sql(pipeline: Pipeline, table: Any) -> str:
    """Return the query as the author wrote it, with its comments."""
    if table.sql is None:
        return ""
    file = pipeline.folder / table.sql_file if table.sql_file else None
    return file.read_text(encoding="utf-8-sig") if file is not None and file.is_file() else str(table.sql)


def _read(source: Source, pipeline: Pipeline, layer: str, name: str, *, rows: bool) -> dict[str, Any]:
    lake = source.lake(pipeline)
    uri = lake.table(layer, name)
    table = source.table(uri)
    facts: dict[str, Any] = {"history": tuple(reversed(batches.table_batches(source, pipeline, layer, name)))}
    if table is None:
        return facts
    has = status.facts(source.table_handles(), lake, layer, name)
    sizes: list[int] = source.compute_once(uri, "sizes", _sizes) or []
    columns = columns_of(pipeline, name, table)
    shows = personal.column_visibility(source, pipeline, layer, name)
    shown = tuple(shows(column.name) for column in columns)
    sample = None
    if rows:
        sample = source.compute_once(uri, ("sample", shown), lambda table: _sample(table, shows))
    return facts | {
        "exists": True, "rows": has.rows, "bytes": sum(sizes), "files": len(sizes),
        "small_files": sum(size < SMALL for size in sizes), "version": has.version, "changed": has.changed,
        "columns": columns, "sample": sample, "rejected": has.rejected,
        "quarantined": discarded.waiting_rows(source, lake, name) if name in pipeline.silver else 0,
        "drift": _drift(source, pipeline, name) if layer == "bronze" else (),
    }  # fmt: skip


def _drift(source: Source, pipeline: Pipeline, name: str) -> tuple[SchemaVersion, ...]:
    """Return the versions that changed a bronze table's columns, as far as they have been read."""
    lake = source.lake(pipeline)
    answer = source.compute_soon(("schemas", pipeline.name, name), lambda: schema_history.versions(lake, name))
    versions = reversed(answer.value or ())
    return tuple(SchemaVersion(version["version"], version["since"], version["changes"]) for version in versions)


def _sizes(table: DeltaTable) -> list[int]:
    return [int(size) for size in tables.statistics(table, "size_bytes")["size_bytes"].to_pylist()]


def columns_of(pipeline: Pipeline, name: str, table: DeltaTable) -> tuple[ColumnSummary, ...]:
    """Describe the columns of a table by its schema and the definition."""
    return tuple(_columns(pipeline, name, table))


def _columns(pipeline: Pipeline, name: str, table: DeltaTable) -> Iterator[ColumnSummary]:
    copied = pipeline.deidentified_tables.get(name)
    defined: Any = None
    comments: dict[str, str] = {}
    if not copied:
        defined = pipeline.table(name)[1]
        comments = {column.lower(): text for column, text in defined.column_comments.items()}
    personal_columns = {column.lower() for column in getattr(defined, "pii", ())}
    rules: dict[str, list[str]] = {}
    for rule, expectation in {} if copied else defined.expectations.items():
        for column in expectation.columns:
            rules.setdefault(column.lower(), []).append(rule)
    for field_ in json.loads(table.schema().to_json())["fields"]:
        low = field_["name"].lower()
        comment = comments.get(low) or str((field_.get("metadata") or {}).get("comment") or "")
        of_engine = field_["name"] in (*ENGINE_COLUMNS, *PROVENANCE)
        kind = schema_history.ddl(field_["type"])
        yield ColumnSummary(
            field_["name"], kind, comment, low in personal_columns, of_engine, tuple(rules.get(low, ()))
        )


def _sample(table: DeltaTable, shows: personal.Shows) -> SampleRows:
    names = [column.name for column in table.schema().fields if column.name not in ENGINE_COLUMNS]
    columns = names[:SAMPLE_COLUMNS]
    newest = newest_rows(table, columns, SAMPLE_ROWS)
    hidden = tuple(name for name in columns if not shows(name))
    values = [
        [personal.HIDDEN if name in hidden else personal.text_of(row.get(name)) for name in columns] for row in newest
    ]
    return SampleRows(tuple(columns), tuple(tuple(row) for row in values), hidden, len(names) - len(columns))


def newest_rows(table: DeltaTable, columns: Sequence[str], count: int) -> list[dict[str, Any]]:
    """Return rows of the newest data files, of which only the first pages are read."""
    store = tables.filesystem(table)
    if store is None or not tables.is_plain(table):
        return rows_of(tables.dataset(table).head(count, columns=list(columns)))
    import pyarrow.parquet as pq

    files = tables.statistics(table, "path", "modification_time").sort_by([("modification_time", "descending")])
    newest: list[dict[str, Any]] = []
    for path in files["path"].to_pylist()[:count]:
        with store.open_input_file(path) as file:
            parquet = pq.ParquetFile(file)
            present = [name for name in columns if name in parquet.schema_arrow.names]
            batch = next(parquet.iter_batches(batch_size=count - len(newest), columns=present), None)
            if batch is not None:
                newest += rows_of(batch)
        if len(newest) >= count:
            break
    return newest


def rows_of(batch: Any) -> list[dict[str, Any]]:
    """Convert an Arrow batch or table to rows; times that Python cannot hold, as of the year 10000, become text."""
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*map(_values, batch.columns), strict=True)]


def _values(column: Any) -> list[Any]:
    import pyarrow as pa

    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):
        if pa.types.is_temporal(column.type):
            return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
        return ["…"] * len(column)


def _rules(pipeline: Pipeline, name: str, history: Sequence[CommittedBatch]) -> Iterator[RuleHistory]:
    if name in pipeline.deidentified_tables:
        return
    table = pipeline.table(name)[1]
    histories = []
    for rule, expectation in table.expectations.items():
        counts = [next((count for count in batch.rules if count.rule == rule), None) for batch in history]
        counted = [count for count in counts if count is not None]
        histories.append(
            RuleHistory(
                rule, expectation.text, expectation.action,
                expectation.warn_above.text if expectation.warn_above else "",
                expectation.fail_above.text if expectation.fail_above else "",
                tuple(count.rate for count in counted), sum(c.passed for c in counted), sum(c.failed for c in counted),
            )
        )  # fmt: skip
    yield from sorted(histories, key=lambda rule: (rule.rate is None, rule.rate or 0.0))
    for rule, about in table.expect_table.items():
        yield RuleHistory(rule, str(about), "refuse")
