"""What the tests share: one Spark session for all, and a workspace with landing, lake and definitions of its own."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from sluicegate.definition import LAYERS, Pipeline, load
from sluicegate.lake import layout
from sluicegate.lake import tables as lakes
from sluicegate.settings import Settings
from tests.support import tiers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# So that its asserts, too, tell what differs.
pytest.register_assert_rewrite("tests.support.silver_world")

# How long an example takes says more of the machine than of what is tested.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

ROOT = Path(__file__).resolve().parent.parent

# Commands in tests leave no Spark behind, but in the tests of just that.
os.environ["SLUICEGATE_WARM"] = "0"

# Columns that say when and in which chunk a record came: they differ between runs that agree in everything else.
CIRCUMSTANCES = {"receipt_time", "_chunk", "_pos", "_mark", "_quarantined_at", "_file_modification_time", "_sequence"}


def pytest_configure(config: pytest.Config) -> None:
    """Lets the process that reports say at once which test failed."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_AtOnce(config), "failures-at-once")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Refuses tests that no target of make runs, or that several do, before some are left out by their markers."""
    refuse_misplaced({item.nodeid: frozenset(mark.name for mark in item.iter_markers()) for item in items})


def refuse_misplaced(tests: Mapping[str, frozenset[str]]) -> None:
    """Refuses tests whose markers do not fit their folder or the targets of make.

    Args:
        tests: markers of each test by its id.

    Raises:
        UsageError: there is one.
    """
    reasons = {test: tiers.misplaced(test.removeprefix("tests/").partition("/")[0], of) for test, of in tests.items()}
    said = [f"{test}: {reason}" for test, reason in reasons.items() if reason]
    if said:
        raise pytest.UsageError("\n".join(said[:20]))


class _AtOnce:
    """Prints each failure when it happens: a run that is stopped from outside never comes to pytest's summary."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal: Any = self.config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            reason = report.longreprtext.strip().splitlines() or [""]
            terminal.ensure_newline()
            terminal.write_line(f"FAILED {report.nodeid} ({report.when}, {report.duration:.0f} s): {reason[-1]}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of all tests, with the settings that jobs have.

    Those of jobs that go on for hours: after a minute the second compiler gives more than it takes, even beside a
    second process of tests (thirty small runs in each: 9 s a run with it, 13 s without it).
    """
    from sluicegate.spark import configuration, connect, session

    if os.environ.get("SLUICEGATE_TESTS_ON") == "server":  # make test-connect
        from tests.support.servers import serving

        token = tmp_path_factory.mktemp("server") / "token"
        token.write_text("of these tests")
        with serving(token) as url, pytest.MonkeyPatch.context() as patch:
            patch.setenv(connect.REMOTE, url)
            patch.setenv(connect.TOKEN_FILE, str(token))
            served = connect.open_session(url, configuration.session_conf())
            served.sql("SELECT 1").collect()  # as below
            yield served
            connect.close_all()  # while there is a server that can answer
        return
    # The heap has its full size from the start: from the 400 MB that suit a job it grows by dozens of full collections.
    opened = session.session_inside("tests", "-Xms2g")
    # It would say farewell to a log that has been closed by then.
    logging.getLogger("py4j").setLevel(logging.ERROR)
    # Delta changes two settings of Parquet once, with the first query of a session: whichever file of tests comes first
    # is not to be told that it left them behind.
    opened.sql("SELECT 1")
    yield opened
    opened.stop()


@dataclass
class Workspace:
    """A landing, a lake and a definition in a folder of their own."""

    folder: Path
    pipeline: str = "heart_rate"

    @property
    def settings(self) -> Settings:
        return Settings.of(
            str(self.folder / "lake"), str(self.folder / "landing"), self.folder / "pipelines", "local[2]"
        )

    @property
    def lake(self) -> layout.Lake:
        return layout.Lake(self.settings.lake, self.pipeline)

    @property
    def definition(self) -> Pipeline:
        return load(self.pipeline, self.settings)

    def define(self, text: str, **files: str) -> None:
        """Replaces the definition; ``files`` are named with ``__`` for the dot."""
        folder = self.folder / "pipelines" / self.pipeline
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "pipeline.yaml").write_text(text)
        for name, content in files.items():
            (folder / name.replace("__", ".")).write_text(content)

    def edit(self, file: str, old: str, new: str) -> None:
        """Changes one place of the definition."""
        path = self.folder / "pipelines" / self.pipeline / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def land(self, name: str, content: str | bytes | Sequence[Any], age: float = 60.0) -> Path:
        """Writes a file (a list becomes a JSON array) that settled ``age`` seconds ago."""
        path = self.folder / "landing" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content if isinstance(content, (str, bytes)) else json.dumps(list(content))
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        then = time.time() - age
        os.utime(path, (then, then))
        return path

    def run(self, spark: SparkSession, *layers: str) -> dict[str, Any]:
        """Runs layers in this process, as the jobs do, and gives each table's report by name."""
        from sluicegate.jobs.layer_job import Job

        reports = {}
        for layer in layers or layout.LAYERS:
            done = Job(self.definition, self.lake, layer, {"run_id": "test"}, spark).run()
            reports |= {table.table: table for table in done.tables}
        return reports

    def uri(self, table: str) -> str:
        """Address of a table by its name; ``x_quarantine``, ``x_set_aside`` and ``x_rejected`` too."""
        if table.endswith("_quarantine"):
            return self.lake.quarantine(table.removesuffix("_quarantine"))
        if table.endswith("_set_aside"):
            return self.lake.set_aside(table.removesuffix("_set_aside"))
        if table.endswith("_rejected"):
            return layout.rejected_table(self.uri(table.removesuffix("_rejected")))
        if table.endswith("_deidentified"):
            return self.lake.table("silver", table)
        layer, _ = self.definition.table(table)
        return self.lake.table(layer, table)

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """All rows of a table as tuples of some or all columns, read by delta-rs."""
        found = lakes.delta_table(self.uri(table))
        if found is None:
            return []
        data = lakes.dataset(found).to_table(list(columns) or None)
        return [tuple(row.values()) for row in data.to_pylist()]

    def content(self) -> dict[str, Counter[tuple[Any, ...]]]:
        """All tables as multisets of rows, without what may differ between two runs of the same work."""
        tables = [n for layer in LAYERS for n in self.definition.names(layer)]
        tables += [f"{name}_quarantine" for name in self.definition.silver]
        content: dict[str, Counter[tuple[Any, ...]]] = {}
        for table in tables:
            found = lakes.delta_table(self.uri(table))
            columns = sorted(set(found.schema().to_arrow().names) - CIRCUMSTANCES) if found else []
            rows = [tuple(_hashable(value) for value in row) for row in self.rows(table, *columns)] if columns else []
            content[table] = Counter(rows)
        return content


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return "NaN" if isinstance(value, float) and value != value else value


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace with the heart_rate definition and empty landing folders."""
    empty = Workspace(tmp_path)
    begin(empty)
    return empty


def begin(workspace: Workspace) -> None:
    """Gives a workspace the heart_rate definition and empty landing folders."""
    copy_heart_rate(workspace.folder)
    for folder in ("recordings", "patients"):
        (workspace.folder / "landing" / folder).mkdir(parents=True)


def copy_heart_rate(folder: Path) -> None:
    """The definition of heart_rate with one gold table: the other would cost each of some hundred runs half a second,
    and test_pipelines.py has both.
    """
    shutil.copytree(ROOT / "pipelines" / "heart_rate", folder / "pipelines" / "heart_rate")
    Workspace(folder).edit("pipeline.yaml", "  device_counts: {sql: device_counts.sql}\n", "")


@pytest.fixture
def heartbeats(workspace: Workspace) -> Workspace:
    """A workspace with two patients and three small files of recordings landed."""
    land_heartbeats(workspace)
    return workspace


def land_heartbeats(workspace: Workspace) -> None:
    """Lands two patients and three small files of recordings."""
    workspace.land("patients/patients.csv", "mrn,name\n1,Ada\n2,Bo\n", age=100)
    workspace.land("recordings/a.json", [beat(1, 1, 0, 60.0), beat(1, 1, 900, 62.5), beat(2, 2, 0, -3.0)], age=90)
    workspace.land("recordings/b.json", [beat(2, 2, 900, 80.0), beat(3, 9, 900, 70.0)], age=80)
    workspace.land("recordings/c.json", [beat(1, 1, 0, 61.0), beat(1, 1, 86400, 90.0)], age=70)


def beat(device: int, mrn: int, seconds: float, heartrate: float | str | None) -> dict[str, Any]:
    """One reading, ``seconds`` after the start of 2020 (UTC)."""
    return {"device_id": device, "mrn": mrn, "time": 1577836800 + seconds, "heartrate": heartrate}
