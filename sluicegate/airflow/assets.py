"""Airflow assets of the tables, by which other DAGs can be scheduled, and the extras of their events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from airflow.sdk import Asset, AssetWatcher

from sluicegate.airflow import bundles
from sluicegate.definition import LAYERS, Layer, Pipeline
from sluicegate.lake.layout import Lake
from sluicegate.settings import Settings

# Commit info that an asset event carries, as far as the commit has it.
_FACTS = ("mode", "interval", "run_id", "read", "written", "quarantined", "dropped", "duplicates", "rows",
          "no_rows", "expectations")  # fmt: skip


def asset(pipeline: str, table: str, extra: Mapping[str, Any] | None = None) -> Asset:
    """Asset of a table: ``DAG(…, schedule=[asset("heart_rate", "daily_patient_avg")])``.

    It is identified by its name, ``pipeline.table``, whichever lake the table lies in, and grouped by pipeline.

    Args:
        pipeline: name of the pipeline.
        table: name of the table.
        extra: what Airflow shows with it; the DAG of the pipeline says it, and others need not.
    """
    return Asset(name=f"{pipeline}.{table}", group=pipeline, extra=dict(extra or {}))


def describe_asset(pipeline: Pipeline, table: str) -> Asset:
    """Asset of a table, with its comment and tags as ``extra``."""
    if table in pipeline.deidentified_tables:
        return asset(pipeline.name, table)
    _, about = pipeline.table(table)
    descriptions = {"comment": about.comment, "column_comments": about.column_comments, "tags": about.tags}
    return asset(pipeline.name, table, {name: value for name, value in descriptions.items() if value})


def job_assets(pipeline: Pipeline, layers: Sequence[Layer]) -> dict[str, list[Asset]]:
    """Inlets and outlets of a job: the tables that it reads, and those that it fills.

    Those that it fills are inlets, too, since a task may look up the last event of declared inlets alone.

    Args:
        pipeline: the definition.
        layers: what the job runs.
    """
    before = LAYERS[: LAYERS.index(layers[0])][-1:]
    read, filled = (
        [describe_asset(pipeline, table) for layer in of_layers for table in pipeline.names(layer)]
        for of_layers in (before, layers)
    )
    return {"inlets": [*read, *filled], "outlets": filled}


def landing_asset(pipeline: str, queue: str | None, settings: Settings) -> Asset:
    """Asset of the landing folders of a pipeline, with an event whenever files have landed in them.

    Args:
        pipeline: name of the pipeline.
        queue: URL of a queue with the store's notifications.
        settings: where things are.
    """
    from sluicegate.airflow.sensors.trigger import FileArrivalTrigger

    trigger = FileArrivalTrigger(pipeline=pipeline, queue=queue, **bundles.trigger_arguments(settings))
    watcher = AssetWatcher(name="file_arrival", trigger=trigger)
    return Asset(name=f"{pipeline}.landing-files", group=pipeline, watchers=[watcher])  # no table's name has a - in it


def unreported_tables(
    lake: Lake, layer: str, tables: Iterable[str], published: Callable[[Asset], dict[str, Any]]
) -> Iterator[tuple[Asset, dict[str, Any]]]:
    """Tables with a version of ours that no asset event has reported yet, each with the extra of its event.

    So the next run reports a table that a failed try or a killed run wrote, and a table that was not written is not
    reported, nor one of gold of which only the offset is new.

    Args:
        lake: the lake.
        layer: bronze, silver or gold.
        tables: its tables.
        published: extra of the asset's last event; empty if there was none.
    """
    # not above: parsing a DAG file needs neither pyarrow nor deltalake
    from sluicegate.flow import source_changes
    from sluicegate.lake import log
    from sluicegate.lake import tables as lake_tables

    for name in tables:
        uri = lake.table(layer, name)
        table = lake_tables.delta_table(uri)
        last = log.last_own_commit(table)
        if last is None:
            continue
        about = asset(lake.pipeline, name)
        before = published(about)
        if before.get("table") == uri:
            known_version = int(before.get("version", -1))
        else:
            known_version = -1
        if known_version == last.version:
            continue
        if (
            layer == "gold"
            and 0 <= known_version < last.version
            and source_changes.has_same_rows(uri, known_version, last.version)
        ):
            continue
        facts = {key: last.info[key] for key in _FACTS if key in last.info}
        yield about, {"table": uri, "version": last.version, "rows": lake_tables.rows(table), **facts}
