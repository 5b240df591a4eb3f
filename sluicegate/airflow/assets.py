"""The tables as assets of Airflow, so that other DAGs can be started by them, and what an event of one tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset

if TYPE_CHECKING:
    from sluicegate.lake.layout import Lake

# What a commit says of its batch, as far as there is anything to say.
_FACTS = ("mode", "interval", "run_id", "read", "written", "quarantined", "dropped", "duplicates", "expectations")


def asset(pipeline: str, table: str) -> Asset:
    """The asset of a table: ``DAG(…, schedule=[asset("heart_rate", "daily_patient_avg")])``.

    It is known by its name, ``pipeline.table``, whichever lake the table lies in.
    """
    return Asset(name=f"{pipeline}.{table}")


def news(
    at: Lake, layer: str, tables: Iterable[str], published: Callable[[Asset], dict[str, Any]]
) -> Iterator[tuple[Asset, dict[str, Any]]]:
    """The tables that have a version of ours which no event has told of yet, each with what an event is to tell.

    So a table that was written in a try that failed, or in a run that was killed, is told of by the next one, and one
    that was not written is not.

    Args:
        at: the lake.
        layer: bronze, silver or gold.
        tables: its tables.
        published: what the last event of an asset told; empty if there was none.
    """
    # not above: parsing a DAG file needs neither pyarrow nor deltalake
    from sluicegate.lake import log
    from sluicegate.lake import tables as lake_tables

    for name in tables:
        uri = at.table(layer, name)
        table = lake_tables.delta_table(uri)
        last = log.last_commit_of_ours(table)
        if last is None:
            continue
        about = asset(at.pipeline, name)
        before = published(about)
        if (before.get("table"), before.get("version")) == (uri, last.version):
            continue
        said = {key: last.ours[key] for key in _FACTS if last.ours and key in last.ours}
        yield about, {"table": uri, "version": last.version, "rows": lake_tables.rows(table), **said}
