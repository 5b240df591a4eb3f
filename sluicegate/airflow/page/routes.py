"""The routes: each page as HTML, and below the same address with ``.json`` as JSON. None of them writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse

from sluicegate.airflow.page import dag_runs, html
from sluicegate.airflow.page.access import Viewer, ViewerDep
from sluicegate.airflow.page.addresses import Addresses
from sluicegate.dashboard import (
    as_json,
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
from sluicegate.dashboard.batches import newest_batches
from sluicegate.dashboard.overview import PipelineState
from sluicegate.dashboard.runs import DagRun
from sluicegate.dashboard.source import Source
from sluicegate.definition import Pipeline
from sluicegate.definition.dag_ids import pipeline_of

router = APIRouter()

Key = Annotated[str | None, Query(max_length=300)]
Word = Annotated[str, Query(max_length=200)]

LONGEST = 2**62


def path_of(request: Request) -> str:
    """Return the path of a request below the app's own, whatever it is mounted at."""
    path, root = request.scope["path"], request.scope.get("root_path", "")
    return str(path[len(root) :] if root and path.startswith(root) else path).lstrip("/")


def addresses(request: Request) -> Addresses:
    """Return addresses relative to the requested page, by the slashes that a browser counts."""
    root = str(request.scope.get("root_path", ""))
    path = request.scope.get("raw_path") or request.scope["path"].encode()
    below = path.decode("latin-1").split("?")[0].count("/") - (root.count("/") if root else 0)
    return Addresses("../" * max(below - 1, 0))


def _render_page(request: Request, template: str, view: Any, *, live: bool = False, **more: Any) -> Response:
    """Render a page as requested, in JSON or HTML.

    Args:
        request: the request.
        template: name of the HTML's template.
        view: the view.
        live: True if the view is about to change, so that the page polls its JSON.
        more: other values for the template.
    """
    tag = ""
    if live:
        tag = as_json.tag(view)
    if path_of(request).endswith(".json"):
        headers = {}
        if tag:
            headers = {"ETag": tag}
        if tag and tag in [part.strip() for part in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        return Response(as_json.text(view), media_type="application/json", headers=headers)
    twin = ""
    if live:
        twin = _json_address(request)
    return HTMLResponse(html.page(template, addresses(request), view=view, live=twin, tag=tag, **more))


def _json_address(request: Request) -> str:
    """Return the address of a page's JSON, relative to the page."""
    path = (request.scope.get("raw_path") or request.scope["path"].encode()).decode("latin-1")
    query = request.scope.get("query_string", b"").decode("latin-1")
    name = "home"
    if path_of(request) != "":
        name = path.split("?")[0].rsplit("/", 1)[-1]
    return f"./{name}.json" + (f"?{query}" if query else "")


def _register_page(path: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a page below its address, and its JSON, which has to come first: a name could swallow ``.json``."""

    def register(view: Callable[..., Any]) -> Callable[..., Any]:
        router.get(f"{path}.json", response_model=None)(view)
        return router.get(path, response_model=None)(view)

    return register


def source_of(request: Request) -> Source:
    """Return the definitions and tables that the pages of a request show."""
    source: Source = request.app.state.source
    return source


def pipeline_of_viewer(request: Request, viewer: Viewer, name: str) -> Pipeline:
    """Return a pipeline that the viewer may see.

    Raises:
        HTTPException: 404, if there is none, or the viewer may not read its DAG.
    """
    source = source_of(request)
    viewer.demand_read(name, source.names())
    return source.pipeline(name)


def _runs(viewer: Viewer, name: str, key: str | None = None) -> Sequence[DagRun]:
    """Return the runs in Airflow that the viewer may see, the one of the key with its tasks."""
    if not viewer.may_read_runs(name):
        return ()
    newest_runs = dag_runs.last_runs_with_steps([name], dag_runs.NEWEST).get(name, [])
    whole = None
    if key:
        whole = dag_runs.find_run(name, key)
    if whole is None:
        return newest_runs
    return [*(run for run in newest_runs if run.run_id != whole.run_id), whole]


@router.get("/static/{name}")
def static(name: str) -> Response:
    """Serve a style sheet, a script or the icon, and no other file: they have no data of a pipeline."""
    if name not in html.STATIC:
        raise HTTPException(404, "File not found.")
    return Response(html.static(name), media_type=html.STATIC[name])


@router.get("/home.json", response_model=None)
@router.get("/", response_model=None)
def home(request: Request, viewer: ViewerDep) -> Response:
    """Show all pipelines that the viewer may see."""
    source = source_of(request)
    names = viewer.readable_pipelines(source.names())
    with_runs = [name for name in names if viewer.may_read_runs(name)]
    last_runs = dag_runs.last_runs_with_steps(with_runs, overview.RUNS)
    lines = overview.overview(source, names, last_runs, paused=dag_runs.paused(names))
    live = any(line.state in (PipelineState.BEING_READ, PipelineState.RUNNING, PipelineState.WAITING) for line in lines)
    return _render_page(request, "home", lines, lake=source.settings.pipelines, live=live)


@_register_page("/search")
def search(request: Request, viewer: ViewerDep, q: Word = "") -> Response:
    """Show the tables and columns whose name or comment matches."""
    source = source_of(request)
    return _render_page(request, "search", find.search(source, viewer.readable_pipelines(source.names()), q), query=q)


@router.get("/dag/{dag_id}", response_model=None)
def dag_page(request: Request, viewer: ViewerDep, dag_id: str) -> Response:
    """Redirect from the tab of a DAG, or of its maintenance, to the pipeline's page."""
    return RedirectResponse(addresses(request).graph(_pipeline_name(request, viewer, dag_id)))


@router.get("/dag/{dag_id}/run/{run_id:path}", response_model=None)
def dag_run_page(request: Request, viewer: ViewerDep, dag_id: str, run_id: str) -> Response:
    """Redirect from the tab of a DAG run to the run's page."""
    name = _pipeline_name(request, viewer, dag_id)
    to = addresses(request)
    return RedirectResponse(to.run(name, run_id) if name == dag_id else to.graph(name))


def _pipeline_name(request: Request, viewer: Viewer, dag_id: str) -> str:
    names = source_of(request).names()
    name_of_pipeline = pipeline_of(dag_id, names)
    if name_of_pipeline is None:
        raise HTTPException(404, "This DAG has no pipeline.yaml: there is nothing to show.")
    viewer.demand_read(name_of_pipeline, names)
    return name_of_pipeline


@_register_page("/p/{pipeline}")
def graph(request: Request, viewer: ViewerDep, pipeline: str, run: Key = None) -> Response:
    """Show the graph of a pipeline as of a run."""
    definition = pipeline_of_viewer(request, viewer, pipeline)
    source, newest_runs = source_of(request), _runs(viewer, pipeline, run)
    if run is None:
        newest_runs = _detail_default(source, definition, newest_runs)
    view = flow_graph.graph(source, definition, newest_runs, run)
    waits = view.backlog.since is None and not view.backlog.error
    live = waits or (view.run is not None and view.run.is_running)
    return _render_page(request, "graph", view, pipeline=pipeline, tab="graph", live=live, key=run)


def _detail_default(source: Source, pipeline: Pipeline, newest_runs: Sequence[DagRun]) -> Sequence[DagRun]:
    """Return the runs of a pipeline, that which the graph shows by default with its tasks."""
    shown = runs.choose_run(runs.group_batches(newest_batches(source, pipeline), newest_runs), None)
    if shown is None or shown.dag_run is None:
        return newest_runs
    whole = dag_runs.find_run(pipeline.name, shown.run_id)
    return [whole if whole and run.run_id == whole.run_id else run for run in newest_runs]


@_register_page("/p/{pipeline}/runs")
def all_runs(request: Request, viewer: ViewerDep, pipeline: str, kind: Word = "", outcome: Word = "") -> Response:
    """Show the runs of a pipeline, of a kind and with an outcome."""
    definition, source = pipeline_of_viewer(request, viewer, pipeline), source_of(request)
    every_run = runs.group_batches(newest_batches(source, definition), _runs(viewer, pipeline))
    view = [run for run in every_run if kind in ("", run.kind) and outcome in ("", run.outcome)]
    choice = {"runs": every_run, "kind": kind, "outcome": outcome}
    return _render_page(request, "runs", view, choice=choice, pipeline=pipeline, tab="runs")


@_register_page("/p/{pipeline}/run")
def one_run(request: Request, viewer: ViewerDep, pipeline: str, key: Key = None) -> Response:
    """Show one run."""
    definition = pipeline_of_viewer(request, viewer, pipeline)
    view = run_details.run_details(source_of(request), definition, _runs(viewer, pipeline, key), key or "")
    return _render_page(request, "run", view, pipeline=pipeline, tab="runs", live=view.run.is_running)


@_register_page("/p/{pipeline}/days")
def calendar(request: Request, viewer: ViewerDep, pipeline: str, table: Key = None) -> Response:
    """Show the calendar of a silver table."""
    definition = pipeline_of_viewer(request, viewer, pipeline)
    view = days.day_details(source_of(request), definition, table, _runs(viewer, pipeline))
    starts = viewer.may_start_runs(pipeline)
    return _render_page(request, "days", view, pipeline=pipeline, tab="days", live=view.days is None, starts=starts)


@_register_page("/p/{pipeline}/t/{table}")
def table_page(request: Request, viewer: ViewerDep, pipeline: str, table: str) -> Response:
    """Show a table."""
    definition = pipeline_of_viewer(request, viewer, pipeline)
    rows, source = viewer.may_read_rows(pipeline), source_of(request)
    readable = viewer.readable_pipelines(source.names())
    view = one_table.table_details(source, definition, table, rows=rows, readable=readable)
    return _render_page(request, "table", view, pipeline=pipeline, tab="table", table=table, live=view.searching)


@_register_page("/p/{pipeline}/t/{table}/files")
def files(
    request: Request, viewer: ViewerDep, pipeline: str, table: str, state: Word = "",
    before: Annotated[int | None, Query(ge=0, le=LONGEST)] = None,
) -> Response:  # fmt: skip
    """Show the files of a bronze table."""
    definition = pipeline_of_viewer(request, viewer, pipeline)
    view = landed.file_details(source_of(request), definition, table, state, before)
    live = view.searching or (view.of_files and view.listed is None and not view.error)
    return _render_page(request, "files", view, pipeline=pipeline, tab="files", table=table, live=live)


@_register_page("/p/{pipeline}/t/{table}/quarantine")
def quarantine(request: Request, viewer: ViewerDep, pipeline: str, table: str, rule: Word = "") -> Response:
    """Show the quarantine of a silver table."""
    definition = pipeline_of_viewer(request, viewer, pipeline)
    rows = viewer.may_read_rows(pipeline)
    view = quarantined.quarantine_details(source_of(request), definition, table, rule, rows=rows)
    return _render_page(
        request, "quarantine", view, starts=viewer.may_start_runs(pipeline), pipeline=pipeline, tab="quarantine",
        table=table, live=view.reasons is None,
    )  # fmt: skip
