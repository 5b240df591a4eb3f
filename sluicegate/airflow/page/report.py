"""A report: the pages of a pipeline and one of its runs as one HTML file that needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from sluicegate.airflow.page import html
from sluicegate.airflow.page.addresses import Anchors
from sluicegate.dashboard import flow_graph, one_table, run_details
from sluicegate.dashboard.flow_graph import Graph
from sluicegate.dashboard.one_table import TableDetails
from sluicegate.dashboard.run_details import RunDetails
from sluicegate.dashboard.source import Source
from sluicegate.definition import LAYERS, Pipeline
from sluicegate.storage import aws


@dataclass(frozen=True)
class Report:
    """What a report has.

    Attributes:
        graph: the pipeline as of the run.
        run: the run; None if the pipeline has none.
        tables: its tables, by layer.
    """

    graph: Graph
    run: RunDetails | None
    tables: tuple[TableDetails, ...]


@aws.brief_requests()
def create_report(pipeline: Pipeline, run: str | None = None, *, rows: bool = False) -> Report:
    """Create the pages of a pipeline as of a run, by default its newest.

    Args:
        pipeline: the definition.
        run: id of the run, as in ``history``, or the time of its first commit.
        rows: True to show some rows of each table.

    Raises:
        UserError: there is no such run among the last ones.
    """
    source = Source(pipeline.settings, patience=None)
    shown = None
    if run is not None:
        shown = run_details.find_run(source, pipeline, run)
    graph = flow_graph.graph(source, pipeline, (), shown.run.key if shown is not None else None)
    if shown is None and graph.run is not None:
        shown = run_details.run_details(source, pipeline, (), graph.run.key)
    names = [name for layer in LAYERS for name in pipeline.names(layer)]
    tables = tuple(
        one_table.table_details(source, pipeline, name, rows=rows, readable=source.names()) for name in names
    )
    return Report(graph, shown, tables)


def as_html(report: Report) -> str:
    """Render a report as one HTML file."""
    css = Markup(html.static("page.css"))  # noqa: S704 (a file of this package)
    name = report.graph.pipeline
    columns = frozenset(
        Anchors.column_id(table.name, column.name) for table in report.tables for column in table.columns
    )
    addresses = Anchors(pipeline=name, columns=columns)
    return html.page("report", addresses, report=report, css=css, pipeline=name, no_rows="Rows are omitted.")
