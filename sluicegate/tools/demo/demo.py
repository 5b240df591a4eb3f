"""``make try`` and ``make demo``: sample files through bronze, silver and gold, then the resulting tables.

``make demo`` does so in a real Airflow, ``make try`` without. All that they create is in the working directory:
``landing``, ``lake`` and, of the demo, ``.airflow`` (Airflow's database and logs).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from sluicegate.console import program, say, warn
from sluicegate.definition import Pipeline, load
from sluicegate.errors import SluicegateError
from sluicegate.flow.report import RunReport
from sluicegate.lake import layout, tables
from sluicegate.launch import pipeline as pipeline_run
from sluicegate.monitor.plan import pending
from sluicegate.monitor.status import status
from sluicegate.settings import Settings
from sluicegate.spark.spark_submit import ROOT
from sluicegate.tools.demo.local_airflow import USER, LocalAirflow, interrupt_on_termination
from sluicegate.tools.demo.warm_spark import warm_spark

PIPELINE = "heart_rate"
SAMPLES = ROOT / "data" / PIPELINE
HOME = Path(".airflow")
SHOWN = 10  # rows of a gold table


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo or, with ``--ui``, its Airflow; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m sluicegate.tools.demo", description=main.__doc__)
    parser.add_argument("--input", metavar="DIR", help="read DIR/recordings and DIR/patients, not the samples")
    parser.add_argument("--without-airflow", action="store_true", help="run the layers in one Spark, by hand")
    parser.add_argument("--ui", action="store_true", help="only start Airflow, with the last demo's files and tables")
    parser.add_argument("--warm", action="store_true", help="with --ui: a Spark that stays warm runs all jobs")
    arguments = parser.parse_args(argv)
    interrupt_on_termination()
    try:
        if arguments.ui:
            return _ui(arguments.input, warm=arguments.warm)
        return _demo(arguments.input, in_airflow=not arguments.without_airflow)
    except SluicegateError as error:
        warn(*error.for_people().split("\n"))
        return error.exit_code
    except KeyboardInterrupt:
        warn("stopped; a new run continues after the last commit")
        return 130


def _demo(input_folder: str | None, *, in_airflow: bool) -> int:
    settings = _settings(input_folder)
    pipeline = load(PIPELINE, settings)
    if input_folder is None:
        _land(Path(settings.landing))
    if in_airflow:
        _run_if_waiting(pipeline, settings)
    else:
        pipeline_run.run(pipeline, settings, None, say)
        say("")
    _show(pipeline, settings)
    _say_next_steps(pipeline, settings, input_folder, in_airflow=in_airflow)
    return 0


def _run_if_waiting(pipeline: Pipeline, settings: Settings) -> None:
    waiting = pending(pipeline, settings)
    if waiting.nothing and not waiting.settling:
        say(f"{waiting.sentence()}; neither Airflow nor Spark was started", "")
    else:
        # Files of a moment ago may still be being written, but will have settled by the time that Airflow is up.
        say("files have just landed" if waiting.nothing else waiting.sentence())
        _run(pipeline, settings)


def _settings(input_folder: str | None) -> Settings:
    pipelines = os.environ.get("SLUICEGATE_PIPELINES") or ROOT / "pipelines"
    if input_folder is None:
        return Settings.of(pipelines=pipelines)
    return Settings.of(lake=f"lake-{Path(input_folder).absolute().name}", landing=input_folder, pipelines=pipelines)


def _land(landing: Path) -> None:
    """Copy the samples that are not in the landing folder yet; each appears whole or not at all."""
    landed = 0
    for sample in sorted(path for path in SAMPLES.glob("*/*") if path.suffix in (".json", ".csv")):
        target = landing / sample.relative_to(SAMPLES)
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        half = target.with_name(f".{target.name}.part")
        shutil.copyfile(sample, half)
        half.replace(target)
        landed += 1
    if landed:
        say(f"landed {landed} sample files in {_short_path(landing)}")


# --- the run ---------------------------------------------------------------------------------------------------------


def _run(pipeline: Pipeline, settings: Settings) -> None:
    """Let Airflow do one run, and report its progress.

    Raises:
        SluicegateError: the run failed, or Airflow did not start.
    """
    HOME.mkdir(mode=0o700, exist_ok=True)
    (HOME / "demo.json").write_text(json.dumps({"lake": settings.lake, "landing": settings.landing}))
    began = time.monotonic()
    # The schedule is off: it would make a run of its own, or two around a full quarter of an hour, and which of them
    # does the work would depend on the clock.
    with LocalAirflow(HOME, settings, lasting=False) as airflow:
        say(f"Airflow is starting on {airflow.url} (its log: {_short_path(airflow.log)})")
        airflow.wait(pipeline.name)
        say(f"Airflow is ready after {time.monotonic() - began:.1f} s")
        run_id = airflow.trigger(pipeline.name)
        say(f"run {run_id} of DAG {pipeline.name}")
        failure = _watch(airflow, pipeline.name, run_id)
        say("Airflow is stopping" if failure is None else "")
    if failure is not None:
        raise failure
    say(f"done in {time.monotonic() - began:.1f} s", "")


def _watch(airflow: LocalAirflow, dag: str, run_id: str) -> SluicegateError | None:
    """Print a line for each change of a task's state until the run ends; return why it failed."""
    began = time.monotonic()
    states: dict[tuple[str, int], str] = {}
    failure: SluicegateError | None = None
    while True:
        state = airflow.run_state(dag, run_id)  # before the tasks, so that no change of theirs is missed at the end
        for task in airflow.tasks(dag, run_id):
            name, attempt, task_state = task["task_id"], task["try_number"], task["state"]
            if task_state in (None, "scheduled", "queued", states.get((name, attempt))):
                continue
            states[name, attempt] = task_state
            say(f"{time.monotonic() - began:6.1f} s  {name:<16} {task_state.replace('_', ' ')}")
            if task_state == "success" and name in layout.LAYERS:
                _say_report(airflow.result(dag, run_id, name))
            elif task_state == "deferred":
                # What landed is still settling; a run for which files wait needs no triggerer.
                airflow.start_triggerer()
            elif task_state in ("failed", "up_for_retry"):
                failure = _failure(airflow, dag, run_id, name, max(attempt, 1))
                say(f"          {failure.cause}")
        if state == "success":
            return None
        if state == "failed":
            return failure or SluicegateError(f"run {run_id} of DAG {dag} failed", hint=f"see {airflow.log}")
        time.sleep(0.4)


def _say_report(result: Any) -> None:
    if isinstance(result, str) and result.startswith("{"):
        result = json.loads(result)
    if result is None:
        say("          nothing new; Spark was not started")
        return
    for table in RunReport.from_dict(result).tables:
        for line in [table.line(), *table.remarks()]:
            say(f"        {line}")


def _failure(airflow: LocalAirflow, dag: str, run_id: str, task: str, attempt: int) -> SluicegateError:
    reason = airflow.failure(dag, run_id, task, attempt)
    log = f"the log of the task is {_short_path(airflow.task_log(dag, run_id, task, attempt))}"
    return SluicegateError(f"task {task} of DAG {dag} failed", cause="\n          ".join(reason.splitlines()), hint=log)


# --- what came of it -------------------------------------------------------------------------------------------------


def _show(pipeline: Pipeline, settings: Settings) -> None:
    lake = layout.Lake(settings.lake, pipeline.name)
    for name in pipeline.gold:
        table = tables.delta_table(lake.table("gold", name))
        if table is None:
            continue
        columns = [column.name for column in table.schema().fields]
        order = ", ".join(f'"{column}"' for column in sorted(columns, key=lambda name: name != "date"))
        first = _ask(table, f"SELECT * FROM t ORDER BY {order} LIMIT {SHOWN}")
        more = ""
        if tables.rows(table) > SHOWN:
            more = f", the first {SHOWN} of {tables.rows(table):,} rows"
        say(f"{pipeline.name}.{name}{more}")
        _say_table(columns, [list(row.values()) for row in first])
        say("")
    counts = [
        [part.layer, part.table, part.rows, part.quarantined if part.layer == "silver" else None, part.state]
        for part in status(pipeline, settings).tables
    ]
    say(f"the tables, in {_short_path(Path(settings.lake) / pipeline.name)}")
    _say_table(["layer", "table", "rows", "quarantined", "state"], counts)
    say("")


def _say_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows in columns, numbers right-aligned."""
    cells = [_aligned_cells(name, values) for name, *values in zip(columns, *rows, strict=True)]
    for line in zip(*cells, strict=True):
        say(f"  {'  '.join(line)}".rstrip())


def _aligned_cells(name: str, values: Sequence[Any]) -> list[str]:
    """Return the cells of a column, all as wide as the widest: its name, a rule and its values."""
    texts = list(map(_text, values))
    width = max(map(len, [name, *texts]))
    align = str.rjust if any(isinstance(value, (int, float)) for value in values) else str.ljust
    return [align(text, width) for text in (name, "-" * width, *texts)]


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        if f"{value:%H%M%S%f}" == "000000000000":
            return f"{value:%Y-%m-%d}"
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, float):
        return f"{value:.2f}"
    return str(value)


def _say_next_steps(pipeline: Pipeline, settings: Settings, input_folder: str | None, *, in_airflow: bool) -> None:
    command_name = program()
    lake_here = landing_here = ""
    one_more = f"{command_name} simulate {pipeline.name}"
    in_real_airflow = "make demo"
    if input_folder:
        lake_here = f" --lake {_short_path(Path(settings.lake))}"
        landing_here = f" --landing {_short_path(Path(settings.landing))}"
        # That is somebody's own folder: nothing is made up in it.
        one_more = f"cp ANOTHER.json {_short_path(Path(settings.landing) / 'recordings')}/"
        in_real_airflow = f"make demo INPUT={input_folder}"
    suggestions = [
        ("this Airflow with its web page, where it also runs by its schedule", "make ui")
        if in_airflow
        else ("the same in a real Airflow", in_real_airflow),
        ("one more file lands", one_more),
        ("through all tables without Airflow", f"{command_name} run {pipeline.name}{lake_here}{landing_here}"),
    ]
    if days := _first_days(pipeline, settings):
        query = f"SELECT * FROM {pipeline.name}.daily_patient_avg WHERE date BETWEEN {days} ORDER BY date, mrn"
        suggestions.append(("a query by date", f'{command_name} sql "{query}"{lake_here}'))
    say("what to try next")
    for purpose, command in suggestions:
        say(f"  # {purpose}", f"  {command}")


def _first_days(pipeline: Pipeline, settings: Settings) -> str:
    """Return the first two days of the gold table as SQL; empty when it has no rows."""
    table = tables.delta_table(layout.Lake(settings.lake, pipeline.name).table("gold", "daily_patient_avg"))
    first = None
    if table is not None:
        first = _ask(table, "SELECT min(date) AS day FROM t")[0]["day"]
    if first:
        return f"DATE '{first:%Y-%m-%d}' AND DATE '{first + timedelta(days=1):%Y-%m-%d}'"
    return ""


def _ask(table: DeltaTable, query: str) -> list[dict[str, Any]]:
    """Return the rows of a query over a table, which is called ``t`` in it."""
    # Not `to_pyarrow_table`: its reader threads call back into Python, and when the process ends before they have
    # finished, as this one does at once, it now and then dies of "terminate called without an active exception".
    result = QueryBuilder().register("t", table).execute(query)
    rows: list[dict[str, Any]] = pa.table(result).to_pylist()
    return rows


def _short_path(path: Path) -> str:
    """Return the path relative to the working directory, if it is below it."""
    if path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return str(path)


# --- the web page ----------------------------------------------------------------------------------------------------


def _ui(input_folder: str | None, *, warm: bool) -> int:
    """Start the demo's Airflow and print the address of its web page; end at Ctrl-C.

    Args:
        input_folder: folder of the user's files; None for the sample, or the last demo's.
        warm: True to run all jobs on one Spark Connect server, in place of a spark-submit each.
    """
    settings = _settings(input_folder)
    if input_folder is None and (HOME / "demo.json").exists():
        last = json.loads((HOME / "demo.json").read_text())
        settings = Settings.of(lake=last["lake"], landing=last["landing"], pipelines=settings.pipelines)
    if warm:
        say(f"Spark is starting, and stays warm for all runs (its log: {_short_path(HOME / 'spark.log')})")
    spark = warm_spark(HOME.absolute(), settings) if warm else nullcontext(settings)
    with spark as of_jobs, LocalAirflow(HOME, of_jobs, lasting=True) as airflow:
        say(f"Airflow is starting (its log: {_short_path(airflow.log)})")
        airflow.wait(PIPELINE)
        password_file = _short_path(airflow.password_file)
        say(f"open {airflow.url}/dags/{PIPELINE} as user {USER}; the password is in {password_file}")
        landing, lake = _short_path(Path(settings.landing)), _short_path(Path(settings.lake))
        say(f"it reads {landing} and fills {lake}; Ctrl-C ends it")
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            say("", "Airflow is stopping")
            airflow.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
