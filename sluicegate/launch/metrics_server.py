"""Serve a continuous run's metrics to Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from sluicegate.errors import UserError
from sluicegate.monitor.metrics import Registry

HERE = "127.0.0.1"
"""Address that only this machine reaches."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@contextmanager
def serve_metrics(registry: Registry, port: int, host: str = HERE) -> Iterator[int]:
    """Serve metrics at ``/metrics`` within the block, and yield the port.

    Args:
        registry: the metrics.
        port: the port; 0 for any that is free.
        host: the address to listen on.

    Raises:
        UserError: the port is taken, or the address is not this machine's.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def do_GET(self) -> None:
            """Answer a scrape."""
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(HTTPStatus.NOT_FOUND, "metrics are at /metrics")
                return
            body = registry.text().encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep scrapes out of the lines about batches."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except (OSError, OverflowError) as error:
        hint = "choose another --metrics-port, or --metrics-host"
        raise UserError(f"metrics cannot be served at {host}:{port}", cause=str(error), hint=hint) from None
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
