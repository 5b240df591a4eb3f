"""A server of S3's protocol for tests, and a proxy before it that misbehaves as stores and networks do.

The server is moto's, or MinIO where ``SLUICEGATE_MINIO`` in the environment names its program.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

BUCKET = "lake"
USER, PASSWORD = "who", "what-for-tests"  # MinIO wants 3 and 8 letters

# A process of its own: delta-rs waits for some answers with the interpreter's lock held.
SERVER = """
import time
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
server.start()
print("http://{}:{}".format(*server.get_host_and_port()), flush=True)
time.sleep(10**6)
"""

# What a request meets on its way, and how an answer is kept back.
ERROR = '<?xml version="1.0"?><Error><Code>{0}</Code><Message>{0} of the test</Message></Error>'


@contextmanager
def s3_server() -> Iterator[str]:
    """The address of a server with a bucket, and an environment in which everybody finds it."""
    import boto3

    program = os.environ.get("SLUICEGATE_MINIO")
    with _minio(program) if program else _moto() as url, pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        said = {"AWS_ACCESS_KEY_ID": USER, "AWS_SECRET_ACCESS_KEY": PASSWORD, "AWS_REGION": "us-east-1"}
        for name, value in {**said, "AWS_ENDPOINT_URL": url}.items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield url


@contextmanager
def _moto() -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.communicate()


@contextmanager
def _minio(program: str) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        at = f"127.0.0.1:{probe.getsockname()[1]}"
    with tempfile.TemporaryDirectory(prefix="minio-") as folder:
        server = subprocess.Popen(
            [program, "server", "--quiet", "--address", at, folder],
            env=os.environ | {"MINIO_ROOT_USER": USER, "MINIO_ROOT_PASSWORD": PASSWORD, "MINIO_BROWSER": "off"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        try:
            _until_healthy(f"http://{at}/minio/health/live")
            yield f"http://{at}"
        finally:
            server.kill()
            server.wait()


def _until_healthy(url: str) -> None:
    opener, end = urllib.request.build_opener(urllib.request.ProxyHandler({})), time.monotonic() + 60
    while time.monotonic() < end:
        with suppress(OSError), opener.open(url, timeout=5):
            return
        time.sleep(0.1)
    pytest.fail(f"{url} does not answer")


# What becomes of a request: a status to answer without asking the server, "slow", "lost" (its answer is), or "".
Fate = Callable[[str, str], "int | str"]


def seeded(seed: int, share: float) -> Fate:
    """Lets a share of all requests go wrong, in any of four ways."""
    chance, lock = random.Random(seed), threading.Lock()

    def fate(method: str, path: str) -> int | str:
        with lock:
            return chance.choice([500, 503, "slow", "lost"]) if chance.random() < share else ""

    return fate


class Proxy:
    """A proxy before a server, to be used as a context; ``fate`` may be set to another at any time."""

    def __init__(self, server: str, fate: Fate, *, without: str = "") -> None:
        self.fate, self.met, self.without = fate, Counter[Any](), without.lower()
        self._to = urlsplit(server).netloc
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                with suppress(ConnectionError):
                    super().handle_one_request()

            def log_message(self, *_: object) -> None: ...

            def do_GET(self) -> None:
                outer._pass(self)

            do_PUT = do_POST = do_DELETE = do_HEAD = do_GET

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 100

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _pass(self, here: BaseHTTPRequestHandler) -> None:
        body = here.rfile.read(int(here.headers.get("Content-Length") or 0))
        fate = self.fate(here.command, here.path)
        self.met[fate] += 1
        if isinstance(fate, int):
            names = {403: "AccessDenied", 404: "NoSuchBucket", 500: "InternalError", 503: "SlowDown"}
            answer = b"" if here.command == "HEAD" else ERROR.format(names[fate]).encode()
            here.send_response(fate)
            here.send_header("Content-Type", "application/xml")
            here.send_header("Content-Length", str(len(answer)))
            here.end_headers()
            here.wfile.write(answer)
            return
        if fate == "slow":
            time.sleep(1.0)
        headers = {name: value for name, value in here.headers.items() if name.lower() != self.without}
        connection = HTTPConnection(self._to, timeout=60)
        try:
            connection.request(here.command, here.path, body, headers)
            answered = connection.getresponse()
            content = answered.read()
        except (OSError, HTTPException):
            fate = "lost"
        finally:
            connection.close()
        if fate == "lost":
            here.close_connection = True
            here.connection.shutdown(socket.SHUT_RDWR)
            return
        self._answer(here, answered, content)

    def _answer(self, here: BaseHTTPRequestHandler, answered: HTTPResponse, content: bytes) -> None:
        here.send_response(answered.status)
        for name, value in answered.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length", "date", "server"):
                here.send_header(name, value)
        length = answered.getheader("Content-Length") if here.command == "HEAD" else None
        here.send_header("Content-Length", length or str(len(content)))
        here.end_headers()
        here.wfile.write(content)
