"""Addresses of the pages: relative ones in Airflow's server, anchors in a report."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from sluicegate.definition.dag_ids import dag_id


@dataclass(frozen=True)
class Addresses:
    """Addresses relative to a page, so that they hold behind whatever prefix Airflow is served.

    Args:
        root: what leads from the page to the folder of all pages: ``../`` for each folder that it is in.
    """

    root: str = ""

    def _address(self, *parts: str, **query: str | int | None) -> str:
        path = self.root + "/".join(quote(part, safe="") for part in parts)
        parameters = urlencode({name: value for name, value in query.items() if value not in (None, "")})
        return (path or "./") + (f"?{parameters}" if parameters else "")

    @property
    def home(self) -> str:
        """All pipelines."""
        return self._address()

    @property
    def search(self) -> str:
        """Search over tables and columns."""
        return self._address("search")

    def static(self, name: str) -> str:
        """Return the address of a style sheet or script."""
        return self._address("static", name)

    def graph(self, pipeline: str, run: str | None = None) -> str:
        """Return the address of a pipeline's graph as of a run."""
        return self._address("p", pipeline, run=run)

    def runs(self, pipeline: str, kind: str | None = None, outcome: str | None = None) -> str:
        """Return the address of a pipeline's runs of a kind and with an outcome."""
        return self._address("p", pipeline, "runs", kind=kind, outcome=outcome)

    def run(self, pipeline: str, key: str) -> str:
        """Return the address of a run's page."""
        return self._address("p", pipeline, "run", key=key)

    def days(self, pipeline: str, table: str | None = None) -> str:
        """Return the address of the calendar of the tables with an event time."""
        return self._address("p", pipeline, "days", table=table)

    def rebuild(self, pipeline: str) -> str:
        """Return the address of the confirmation of a rebuild of days."""
        return self._address("p", pipeline, "days", "rebuild")

    def table(self, pipeline: str, table: str) -> str:
        """Return the address of a table's page."""
        return self._address("p", pipeline, "t", table)

    def column(self, pipeline: str, table: str, column: str) -> str:
        """Return the address of a column on the page of its table."""
        return f"{self.table(pipeline, table)}#{quote(self.column_id(table, column), safe='')}"

    @staticmethod
    def column_id(table: str, column: str) -> str:
        """Return the HTML id of a column."""
        return f"column-{table}-{column}"

    def files(self, pipeline: str, table: str, state: str | None = None, before: int | None = None) -> str:
        """Return the address of a bronze table's files in a state, of ledger batches before ``before``."""
        return self._address("p", pipeline, "t", table, "files", state=state, before=before)

    def quarantine(self, pipeline: str, table: str, rule: str | None = None) -> str:
        """Return the address of a silver table's quarantine, by a rule."""
        return self._address("p", pipeline, "t", table, "quarantine", rule=rule)

    def replay(self, pipeline: str, table: str, rule: str | None = None) -> str:
        """Return the address of the confirmation of a replay from quarantine, by a rule."""
        return self._address("p", pipeline, "t", table, "quarantine", "replay", rule=rule)

    def discard(self, pipeline: str, table: str, rule: str | None = None) -> str:
        """Return the address of the confirmation of a discard from quarantine, by a rule."""
        return self._address("p", pipeline, "t", table, "quarantine", "discard", rule=rule)

    def undo_discard(self, pipeline: str, table: str, discard: str | None = None) -> str:
        """Return the address of the confirmation that a discard is undone."""
        return self._address("p", pipeline, "t", table, "quarantine", "undo-discard", discard=discard)

    def dag(self, pipeline: str) -> str:
        """Return the address of the DAG in Airflow."""
        return f"{self.root}../dags/{quote(dag_id(pipeline), safe='')}"

    def dag_run(self, pipeline: str, run_id: str) -> str:
        """Return the address of a run in Airflow."""
        return f"{self.dag(pipeline)}/runs/{quote(run_id, safe='')}"

    def task(self, pipeline: str, run_id: str, task: str) -> str:
        """Return the address of a run's task in Airflow, with its log."""
        return f"{self.dag_run(pipeline, run_id)}/tasks/{quote(task, safe='')}"


@dataclass(frozen=True)
class Anchors(Addresses):
    """Addresses within one file; empty for what is not in it, which is then no link.

    Args:
        root: of no use here.
        pipeline: the pipeline that the file is of.
        columns: what the columns in it are called.
    """

    pipeline: str = ""
    columns: frozenset[str] = frozenset()

    def _address(self, *parts: str, **query: str | int | None) -> str:
        match parts:
            case ("p", self.pipeline):
                return "#graph"
            case ("p", self.pipeline, "t", table, *_):
                return f"#table-{quote(table, safe='')}"
        return ""

    def column(self, pipeline: str, table: str, column: str) -> str:
        """Return the anchor of a column, or of its table if no run has created the column yet."""
        name = self.column_id(table, column)
        if pipeline == self.pipeline and name in self.columns:
            return f"#{quote(name, safe='')}"
        return self.table(pipeline, table)

    def dag(self, pipeline: str) -> str:
        """Return no address: a report may be opened anywhere."""
        return ""

    def dag_run(self, pipeline: str, run_id: str) -> str:
        """Return no address, as for the DAG."""
        return ""

    def task(self, pipeline: str, run_id: str, task: str) -> str:
        """Return no address, as for the DAG."""
        return ""
