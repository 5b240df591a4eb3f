"""What Airflow mounts: an ASGI app that comes to be with the first request.

Airflow loads plugins in each of its processes. The app needs Delta's and Arrow's libraries, which the scheduler, the
DAG processor and tasks have no use for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Messages = Callable[..., Awaitable[Any]]


class Lakehouse:
    """The Lakehouse page as an ASGI app."""

    def __init__(self) -> None:
        self._app: Any = None
        self._lock: asyncio.Lock | None = None

    async def __call__(self, scope: Scope, receive: Messages, send: Messages) -> None:
        """Answer a request."""
        if self._app is None:
            self._lock = self._lock or asyncio.Lock()
            async with self._lock:
                if self._app is None:
                    self._app = await asyncio.to_thread(_create_app)
        await self._app(scope, receive, send)


def _create_app() -> Any:
    from sluicegate.airflow.page.app import create_airflow_app

    return create_airflow_app()
