"""The FastAPI app that Airflow mounts below ``/lakehouse``: security headers, errors, and the routes."""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any

from airflow.configuration import conf
from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

from sluicegate.airflow import connections
from sluicegate.airflow.dag import settings_below
from sluicegate.airflow.page import confirm, confirm_discard, confirm_rebuild, html, routes
from sluicegate.dashboard import overview
from sluicegate.dashboard.source import Source
from sluicegate.errors import DefinitionError, PipelineMissing, SluicegateError
from sluicegate.settings import Settings
from sluicegate.storage import aws

_LOG = logging.getLogger(__name__)

# Nothing is loaded from elsewhere, no script or style stands in a page, and only Airflow's own pages may frame it.
POLICY = "; ".join([
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'",
    "form-action 'self'", "frame-ancestors 'self'", "base-uri 'none'",
])  # fmt: skip

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def create_app(settings: Settings) -> FastAPI:
    """Create the app that shows the pipelines of the settings."""
    app = FastAPI(title="Lakehouse", openapi_url=None, docs_url=None, redoc_url=None)
    app.state.source = Source(settings)
    app.include_router(routes.router)
    app.include_router(confirm.router)
    app.include_router(confirm_discard.router)
    app.include_router(confirm_rebuild.router)
    app.middleware("http")(_guard_request)
    app.exception_handler(HTTPException)(_answer_refusal)
    app.exception_handler(RequestValidationError)(_answer_invalid_query)
    app.exception_handler(SluicegateError)(_answer_failure)
    return app


def create_airflow_app() -> FastAPI:
    """Create the app for Airflow's DAG files, with the environment's settings or else the folders beside the DAGs'."""
    return create_app(
        settings_below(
            Path(conf.get_mandatory_value("core", "dags_folder")).parent, os.environ.get("SLUICEGATE_TARGET")
        )
    )


async def _guard_request(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    try:
        if routes.path_of(request).startswith("static/"):  # files of this package: no store, so no connection
            response = await call_next(request)
        else:
            with aws.override_variables(await run_in_threadpool(connections.server_variables)), aws.brief_requests():
                response = await call_next(request)
    except SluicegateError as error:
        response = await _answer_failure(request, error)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        _LOG.error("A page could not be rendered: %s in %s:%s", type(error).__name__, place.filename, place.lineno)
        response = _answer(request, 500, "This page could not be rendered.", _HINTS[500])
    response.headers.update(HEADERS)
    return response


async def _answer_refusal(request: Request, error: HTTPException) -> Response:
    """Answer a request without a login or permission, or for a page that does not exist; show no data."""
    if error.detail == HTTPStatus.NOT_FOUND.phrase:  # of an address that no route has
        return _answer(request, 404, "This page does not exist.", _HINTS[404])
    hint = getattr(error, "hint", _HINTS.get(error.status_code, ""))
    return _answer(request, error.status_code, str(error.detail), hint)


async def _answer_invalid_query(request: Request, error: RequestValidationError) -> Response:
    """Answer a query with invalid values by the names of the parameters."""
    names = ", ".join(dict.fromkeys(str(mistake["loc"][-1]) for mistake in error.errors()))
    return _answer(request, 422, f"Invalid value of {names}.", _HINTS[422])


_HINTS = {
    401: "Log in to Airflow, and open this page from its navigation.",
    403: "Log in to Airflow: your session is not valid.",
    404: "Open the pipelines from the navigation.",
    422: "Open this page from its links, or shorten what you search for.",
    500: "See the log of Airflow's API server.",
}


async def _answer_failure(request: Request, error: SluicegateError) -> Response:
    """Answer where a lake or a definition cannot be read."""
    if isinstance(error, PipelineMissing):
        return _answer(request, 404, "This pipeline or table does not exist.", "")
    source: Source = request.app.state.source
    mistakes = overview.mistakes_of(error, source.settings) if isinstance(error, DefinitionError) else ()
    return _answer(request, 409 if mistakes else 503, error.message, error.hint or "", mistakes)


def _answer(request: Request, status: int, message: str, hint: str, mistakes: Any = ()) -> Response:
    if routes.path_of(request).endswith(".json"):
        return JSONResponse({"error": message, "hint": hint, "mistakes": list(mistakes)}, status)
    shown = {"status": status, "message": message, "hint": hint, "mistakes": mistakes}
    return HTMLResponse(html.page("error", routes.addresses(request), **shown), status)
