"""Seconds of each view of the Lakehouse page on a made lake: a million files of a ledger and 100,000 commits.

``python -m bench.lakehouse`` makes the lake, and prints for each view the first request of a new server and the median
of the next ones, in milliseconds. Nothing of it is simulated but the sizes: ledger, statuses, event log and tables are
written by delta-rs as runs leave them, with a checkpoint and the files of all the commits before it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, WriterProperties, write_deltalake

from sluicegate.airflow.page import html
from sluicegate.airflow.page.addresses import Addresses
from sluicegate.dashboard import (
    batches,
    days,
    find,
    flow_graph,
    landed,
    one_table,
    overview,
    quarantined,
    run_details,
    runs,
)
from sluicegate.dashboard.source import Source
from sluicegate.lake import layout, log, tables
from sluicegate.landing import status_log
from sluicegate.monitor import event_log
from sluicegate.schema import history
from sluicegate.settings import Settings

DEFINITION = """name: big
bronze:
  landed: {path: "${landing}/landed", format: json}
silver:
  clean:
    sql: "SELECT r.id, r.at, r.amount FROM STREAM(landed) AS r"
    event_time: at
    expectations: {positive: {expect_or_quarantine: amount > 0}}
gold:
  daily: {sql: "SELECT date(at) AS day, sum(amount) AS amount FROM clean GROUP BY date(at)"}
"""
BEGAN = datetime(2024, 1, 1, tzinfo=UTC)
REPEATED = 7
FILES_A_BATCH = 100
DATA_FILES = 32
MOST_LINKS = 50_000


def main() -> None:
    """Makes the lake and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--commits", type=int, default=100_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = make_lake(Path(folder), given.files, given.commits, given.rows)
        print(f"{given.files:,} files, {given.commits:,} commits, {given.rows:,} rows, load {os.getloadavg()[0]:.1f}")
        print(f"{'view':<24}{'first ms':>10}{'then ms':>10}{'CPU ms':>10}")
        for name, first, then, cpu in measure_views(settings):
            print(f"{name:<24}{first:>10.0f}{then:>10.0f}{cpu:>10.0f}")


def make_lake(folder: Path, files: int, commits: int, rows: int) -> Settings:
    """A lake of such sizes."""
    (folder / "pipelines" / "big").mkdir(parents=True)
    (folder / "pipelines" / "big" / "pipeline.yaml").write_text(DEFINITION)
    (folder / "landing" / "landed").mkdir(parents=True)
    settings = Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")
    at = layout.Lake(settings.lake, "big")
    names = {"bronze": "landed", "silver": "clean", "gold": "daily"}
    ids: dict[str, str] = {}
    for layer, table in names.items():
        _table(
            at.table(layer, table), _rows(rows if layer != "gold" else 1000), commits - 1, _facts(layer, table, commits)
        )
        ids[table] = str(DeltaTable(at.table(layer, table)).metadata().id)
    _table(at.quarantine("clean"), _quarantined_rows(rows // 100), commits - 1, {})
    _ledger(at, files, ids["landed"])
    _schema(at)
    _table(at.events, _events(names, ids, commits), commits // 3, {}, parts=DATA_FILES)
    return settings


def _ledger(at: layout.Lake, files: int, table_id: str) -> None:
    batch = [n // FILES_A_BATCH for n in range(files)]
    times = pa.array([BEGAN + timedelta(seconds=n) for n in range(files)], pa.timestamp("us", "UTC"))
    paths = [f"{at.root}/../landing/landed/part-{n:09d}.json" for n in range(files)]
    entries = {"path": paths, "size": [1000 + n % 977 for n in range(files)], "modification_time": times,
               "action": ["read"] * files, "chunk": batch, "discovered": times}  # fmt: skip
    _table(at.ledger("landed"), pa.table(entries), batch[-1], {}, parts=DATA_FILES)
    became = {"path": paths, "chunk": batch, "rows": [10] * files, "corrupt": [0] * files, "rescued": [0] * files,
              "error": [None if n % 50_000 else "it is no JSON" for n in range(files)], "retry": [False] * files,
              "definition": ["b" * 16] * files, "version": batch, "ingested": times,
              "table_id": [table_id] * files}  # fmt: skip
    _table(at.file_status("landed"), pa.table(became, status_log.OUTCOME), batch[-1] // 10, {}, parts=DATA_FILES)


def _schema(at: layout.Lake) -> None:
    """The schema version of the bronze table, which its first run puts on record."""
    table = DeltaTable(at.table("bronze", "landed"))
    first = {"version": 0, "since": BEGAN, "columns": json.dumps(history.columns_of(table)), "changes": "made",
             "table_id": tables.table_id(table)}  # fmt: skip
    tables.write(at.schemas("landed"), pa.Table.from_pylist([first], schema=history.SCHEMAS), mode="append")


def _rows(count: int) -> pa.Table:
    times = [BEGAN + timedelta(seconds=37 * n) for n in range(count)]
    return pa.table({"id": range(count), "at": pa.array(times, pa.timestamp("us", "UTC")),
                     "amount": [float(n % 100) for n in range(count)], "_chunk": [n // 1000 for n in range(count)],
                     "_pos": range(count)})  # fmt: skip


def _quarantined_rows(count: int) -> pa.Table:
    more = {"_failed_expectations": [["positive"]] * count, "_record": ['{"amount": -1}'] * count,
            "source_file": ["file:/landing/x.json"] * count,
            "_quarantined_at": pa.array([BEGAN + timedelta(seconds=n) for n in range(count)],
                                        pa.timestamp("us", "UTC"))}  # fmt: skip
    found = _rows(count)
    for name, values in more.items():
        found = found.append_column(name, pa.array(values) if isinstance(values, list) else values)
    return found


def _facts(layer: str, table: str, number: int) -> dict[str, Any]:
    common = {"layer": layer, "table": table, "mode": "incremental", "run_id": f"scheduled__{number}", "dag_id": "big",
              "read": 100, "written": 97, "quarantined": 2, "dropped": 0, "duplicates": 1}  # fmt: skip
    return common | {"expectations": {"positive": {"passed": 98, "failed": 2}}, "why": "", "definition": "d" * 64}


def _events(names: dict[str, str], ids: dict[str, str], commits: int) -> pa.Table:
    rows = []
    layers = list(names.items())
    for number in range(commits):
        layer, table = layers[number % 3]
        said = _facts(layer, table, number // 3)
        version = commits - 1 - (commits - 1 - number) // 3  # that of the last event is the table's
        numbers = {name: said[name] for name in ("read", "written", "quarantined", "dropped", "duplicates")}
        rows.append({"time": BEGAN + timedelta(minutes=number), "layer": layer, "table": table, "table_id": ids[table],
                     "version": version, "mode": "incremental", "since": number, "until": number + 1, **numbers,
                     "details": json.dumps(said)})  # fmt: skip
    return pa.Table.from_pylist(rows, event_log.EVENTS)


def _table(uri: str, rows: pa.Table, version: int, facts: dict[str, Any], parts: int = 8) -> None:
    """A table of some data files at a version, with a checkpoint there and the files of all commits before it."""
    said = CommitProperties(custom_metadata={"userMetadata": json.dumps({log.METADATA: facts})})
    each = max(1, -(-rows.num_rows // parts))
    for start in range(0, rows.num_rows, each):
        part = rows.slice(start, each)
        write_deltalake(uri, part, mode="append", commit_properties=said, writer_properties=WriterProperties())
    table = DeltaTable(uri)
    table.create_checkpoint()
    folder, last = Path(uri) / "_delta_log", table.version()
    newest = folder / f"{last:020d}.json"
    for number in range(last + 1, version + 1):
        file = folder / f"{number:020d}.json"
        if number % MOST_LINKS == 0:  # a file has no more of them
            newest = Path(shutil.copy(newest, file))
        else:
            os.link(newest, file)
    if version > last:
        for checkpoint in folder.glob(f"{last:020d}.checkpoint*.parquet"):
            shutil.move(checkpoint, folder / checkpoint.name.replace(f"{last:020d}", f"{version:020d}"))
        about = json.loads((folder / "_last_checkpoint").read_text()) | {"version": version}
        (folder / "_last_checkpoint").write_text(json.dumps(about))


def measure_views(settings: Settings) -> Iterator[tuple[str, float, float, float]]:
    """Milliseconds of the first request for each view, of the next ones, and of their CPU."""
    for name in _views(Source(settings)):
        source = Source(settings)  # as of a server that has just been started
        view = _views(source)[name]
        began = time.perf_counter()
        view()
        first = time.perf_counter() - began
        walls, cpus = [], []
        for _ in range(REPEATED):
            began, cpu = time.perf_counter(), time.process_time()
            view()
            walls.append(time.perf_counter() - began)
            cpus.append(time.process_time() - cpu)
        yield name, 1000 * first, 1000 * statistics.median(walls), 1000 * statistics.median(cpus)


def _views(source: Source) -> dict[str, Callable[[], str]]:
    """Each view as HTML, as a request makes it."""
    big = source.pipeline("big")
    at = {"pipeline": "big"}

    def all_runs() -> Any:
        return runs.group_batches(batches.newest_batches(source, big))

    def render_view(template: str, view: Callable[[], Any], **more: Any) -> Callable[[], str]:
        return lambda: html.page(template, Addresses(), view=view(), **more)

    def table(name: str) -> Callable[[], str]:
        return render_view("table", lambda: one_table.table_details(source, big, name), tab="table", table=name, **at)

    def files(state: str = "", before: int | None = None) -> Callable[[], str]:
        view = partial(landed.file_details, source, big, "landed", state, before)
        return render_view("files", view, tab="files", table="landed", **at)

    aside = partial(quarantined.quarantine_details, source, big, "clean")
    return {
        "home": render_view("home", lambda: overview.overview(source, ["big"], {}), lake=""),
        "graph": render_view("graph", lambda: flow_graph.graph(source, big, ()), tab="graph", key=None, **at),
        "table, bronze": table("landed"),
        "table, silver": table("clean"),
        "files": files(),
        "files, older": files(before=5000),
        "files, failed": files("failed"),
        "quarantine": render_view("quarantine", aside, tab="quarantine", table="clean", starts=False, **at),
        "runs": render_view("runs", all_runs, tab="runs", **at),
        "run": render_view(
            "run", lambda: run_details.run_details(source, big, (), all_runs()[0].key), tab="runs", **at
        ),
        "days": render_view("days", lambda: days.day_details(source, big), tab="days", **at),
        "search": render_view("search", lambda: find.search(source, ["big"], "amount"), query="amount"),
    }


if __name__ == "__main__":
    main()
