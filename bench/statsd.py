"""Metrics that a program tells by StatsD's protocol, each with the time of its arrival."""

from __future__ import annotations

import socket
import threading
import time
from types import TracebackType

LARGEST = 65_535  # bytes of a datagram


def parse_metric(line: str) -> tuple[str, float] | None:
    """Name and value of a metric, as ``airflow.triggers.running.host:3|g``; None for what is no metric."""
    name, _, rest = line.partition(":")
    value, kind, _ = f"{rest}||".split("|", 2)
    try:
        return (name, float(value)) if name and kind else None
    except ValueError:
        return None


class Statsd:
    """Receiver of metrics on a free port of this machine; a context manager.

    Attributes:
        port: its port.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.2)
        self.port = int(self._socket.getsockname()[1])
        self._seen: list[tuple[float, str, float]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._receive, name="statsd", daemon=True)

    def __enter__(self) -> Statsd:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()
        self._socket.close()

    def metric_values(self, name: str, since: float, until: float) -> list[tuple[float, float]]:
        """Times and values of a metric.

        Args:
            name: its name, without the prefix; tags that follow it in the name do not count.
            since: seconds since 1970 of the first.
            until: those of the last.
        """
        return [
            (when, value) for when, one, value in list(self._seen) if since <= when <= until and _is_named(one, name)
        ]

    def _receive(self) -> None:
        while not self._ended.is_set():
            try:
                data = self._socket.recv(LARGEST)
            except TimeoutError:
                continue
            now = time.time()
            for line in data.decode(errors="replace").splitlines():
                if (found := parse_metric(line)) is not None:
                    self._seen.append((now, *found))


def _is_named(full: str, name: str) -> bool:
    short = full.partition(".")[2]
    return short == name or short.startswith(f"{name}.")
