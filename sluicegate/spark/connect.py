"""Sessions of a Spark Connect server: addresses, the token, and the settings that our jobs need there.

The master ``sc://host:port`` runs a job's Python here without a JVM, and its queries on a server that is warm already.
The address is Spark's own; its parameters are kept (``use_ssl=true``, ``user_id``).
https://spark.apache.org/docs/latest/spark-connect-overview.html
"""

from __future__ import annotations

import atexit
import itertools
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluicegate.errors import LakeUnsupported, SparkUnreachable, UserError, Where
from sluicegate.storage.store_errors import has_sign

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.client import DefaultChannelBuilder

# Spark's own variable for the address of a server.
REMOTE = "SPARK_REMOTE"

# Spark's own variable for a server's token; a file is better, as other programs can read an environment.
TOKEN = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105  (the name of a variable)

# Variable that names the file of the token.
TOKEN_FILE = "SLUICEGATE_CONNECT_TOKEN_FILE"  # noqa: S105  (the name of a variable)

# Setting of the servers that ``sluicegate serve`` starts: their log quotes no values of rows, and their commits on S3
# are atomic. Neither can be seen from here, so whoever starts another server and has seen to both sets it to ``true``.
OURS = "spark.sluicegate.server"

# Seconds in which a server has to answer at first.
ANSWERS_WITHIN = 10.0

# Time after which a server of ours ends what has no client any more: longer than a client goes back to it.
CLIENT_GONE_AFTER = "60s"

# Time after which a server of ours forgets a session that nobody uses. Spark's hour is short for a continuous run.
SESSION_IDLE = "24h"

# Signs of an error that the session was ended on a server that is there.
ENDED = ("INVALID_HANDLE.SESSION_CLOSED", "NO_ACTIVE_SESSION")

# Signs of an error that the server, or the session on it, is gone.
LOST = (
    "StatusCode.UNAVAILABLE", "INVALID_HANDLE.", "RESPONSE_ALREADY_RECEIVED", "server side session identifier",
    *ENDED,
)  # fmt: skip

# A connection whose other end is gone without a word is noticed by pings. A server ends connections that send them more
# often than every five minutes, gRPC's own limit in Java.
ALIVE = [
    ("grpc.keepalive_time_ms", 330_000), ("grpc.keepalive_timeout_ms", 20_000), ("grpc.http2.max_pings_without_data", 0)
]  # fmt: skip

# What a server prints before its address once it takes connections.
SERVES = "Spark Connect serves at"

# Kind of the message of that address (see ``channel``).
SERVER_ADDRESS = "SLUICEGATE_SERVER"

# Settings that only a server's start can change.
_STATIC = {"spark.sql.extensions", "spark.sql.catalog.spark_catalog"}

# PySpark asks this variable which of its two sets of functions to use.
_MODE = "SPARK_CONNECT_MODE_ENABLED"

# Numbers of the views of ``freeze``: no two frames may share one.
_numbers = itertools.count()

# Sessions that this process has opened, and their policies of going back to a server.
_opened: list[Any] = []
_policies: list[Any] = []


def is_remote(session: SparkSession) -> bool:
    """Return whether a session is on a Spark Connect server."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def address() -> str:
    """Return the address of the server that this process's jobs use; empty if they start their own Spark."""
    return os.environ.get(REMOTE, "")


def has_opened() -> bool:
    return bool(_opened)


def token_file() -> Path:
    """Return the file of the token: the named one, else that of ``sluicegate serve``."""
    named = os.environ.get(TOKEN_FILE)
    if named:
        return Path(named).expanduser().absolute()
    return own_token_file()


def own_token_file() -> Path:
    """Return this user's own token file."""
    return Path.home() / ".sluicegate" / "connect-token"


def token() -> str:
    """Return the server's token: of the named file, else of Spark's variable, else of this user's own file.

    Returns:
        The token; empty if there is none.

    Raises:
        UserError: the file cannot be read, or is empty.
    """
    if TOKEN_FILE not in os.environ and (text := os.environ.get(TOKEN)):
        return text
    file = token_file()
    try:
        if text := file.read_text(encoding="utf-8").strip():
            return text
        raise UserError(
            f"the token at {file} is empty",
            cause="its writer was stopped, or the disk was full",
            hint="delete the file; `sluicegate serve` creates a new one, which its clients read",
        )
    except FileNotFoundError:
        if TOKEN_FILE not in os.environ:
            return ""
        raise UserError(f"no token at {file}", hint=f"correct {TOKEN_FILE}, or unset it") from None
    except OSError as error:
        raise UserError(f"the token at {file} cannot be read", cause=str(error)) from error


def open_session(url: str, settings: Mapping[str, str]) -> SparkSession:
    """Open a new session on a server.

    Args:
        url: the server's address.
        settings: settings of our jobs; those that a session can change are set if they differ.

    Raises:
        SparkUnreachable: no server answers at the address, or it rejects the token.
        UserError: the address is invalid, or the server lacks Delta Lake or has another Spark than this Python.
    """
    os.environ[_MODE] = "1"
    from grpc import FutureTimeoutError, RpcError, channel_ready_future  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    try:
        channel = _channel(url)
        with channel.toChannel() as opened:
            channel_ready_future(opened).result(timeout=ANSWERS_WITHIN)
        session = ConnectSession.builder.channelBuilder(channel).create()
        session.client.set_retry_policies([_patience()])
        server_settings, version = session.conf.getAll, session.version
    except ValueError:  # PySpark's own for an address is one, too
        # Their words quote the parameters, of which one may be the token.
        raise UserError(
            f"{_hide_parameters(url)} is not an address of a Spark Connect server",
            hint="use sc://host:port, followed by /;name=value for each parameter, with %3D for = in a value",
        ) from None
    except (RpcError, PySparkException, FutureTimeoutError) as error:
        raise unreachable_error(url, error) from None
    _demand_usable(url, server_settings, version)
    for name, value in settings.items():
        if name not in _STATIC and server_settings.get(name) != value:
            session.conf.set(name, value)
    if not _opened:
        atexit.register(close_all)  # closing its channel later would wait for finished threads
    _opened.append(session)
    return session  # type: ignore[return-value]


def _demand_usable(url: str, settings: Mapping[str, str], version: str) -> None:
    """Check that a server has Delta Lake, and the Spark version of this Python.

    Raises:
        UserError: the server lacks one of them.
    """
    import pyspark

    if "delta" not in settings.get("spark.sql.extensions", ""):
        raise UserError(
            f"the Spark Connect server at {_hide_parameters(url)} was started without Delta Lake",
            hint="start it with `sluicegate serve`, or add Delta's extension and catalog to its settings",
        )
    if version.split(".")[:2] != pyspark.__version__.split(".")[:2]:
        raise UserError(
            f"the Spark Connect server at {_hide_parameters(url)} has Spark {version}, "
            f"but this Python has {pyspark.__version__}",
            cause="both sides need the same minor version",
            hint="start a server of this version with `sluicegate serve`, or install the server's version here",
        )


def _hide_parameters(url: str) -> str:
    """Return an address without its parameters, which may include the token."""
    return url.partition("/;")[0].partition(";")[0]


def lost_server_error(error: BaseException) -> SparkUnreachable | None:
    """Return the error for a server that was lost, or ended the session, during a job; None for other errors."""
    if not address() or not has_sign(error, LOST):
        return None
    if has_sign(error, ENDED):
        return SparkUnreachable(
            f"the session on the Spark Connect server at {_hide_parameters(address())} has ended",
            cause=_cause(error),
            hint="run again: a new run opens a new session and continues after the last commit",
        )
    return SparkUnreachable(
        f"lost the connection to the Spark Connect server at {_hide_parameters(address())}",
        cause=_cause(error),
        hint="run again when it is up: a new run continues after the last commit",
    )


def _patience() -> Any:
    """Return the retry policy that all sessions share until a server is lost."""
    from sluicegate.spark.connect_retries import Patience

    if not _policies or _policies[-1].given_up:
        _policies.append(Patience())
    return _policies[-1]


def close_all() -> None:
    """Close all sessions of this process."""
    while _opened:
        session = _opened.pop()
        # Of a server that is gone, too: then there is nothing to close.
        session.client.set_retry_policies([])
        with suppress(Exception):
            session.stop()


def interrupt_all() -> None:
    """Interrupt what this process's sessions still run on a server; threads that wait for it get errors."""
    for session in _opened:
        with suppress(Exception):  # of a server that is gone, and of sessions that it has forgotten
            session.interruptAll()


def activate(session: SparkSession) -> None:
    """Make a server's session the active one of this thread.

    PySpark gives a checkpointed frame to the active session, whichever made it (``proto_to_remote_cached_dataframe`` of
    4.2), and no other session of the server knows it.
    """
    if is_remote(session):
        type(session)._active_session.session = session  # type: ignore[attr-defined]


def analyze(frame: DataFrame) -> DataFrame:
    """Return the frame after Spark has analyzed it: a client's frame would report errors much later.

    Raises:
        AnalysisException: Spark cannot analyze the frame.
    """
    if is_remote(frame.sparkSession):
        _ = frame.schema
    return frame


def freeze(frame: DataFrame) -> DataFrame:
    """Return the frame as its query is understood now, whatever views and settings change later.

    A client of a server sends the text of a query each time that it is executed, and only then it is analyzed. A view
    is analyzed when it is made.
    """
    session = frame.sparkSession
    if not is_remote(session):
        return frame
    name = f"_sluicegate_frozen_{next(_numbers)}"
    frame.createOrReplaceTempView(name)
    return session.table(name)


def demand_suitable_server(session: SparkSession, url: str, *, private: bool, on_s3: bool) -> None:
    """Refuse a server that may lack what only its JVM can ensure.

    Args:
        session: a session of the server.
        url: its address.
        private: whether rows may have personal data.
        on_s3: whether tables are on S3.

    Raises:
        UserError: the server's log might quote personal values.
        LakeUnsupported: the server might lose one of two concurrent commits on S3.
    """
    if session.conf.get(OURS, None) == "true":
        return
    hint = f"use a server that `sluicegate serve` has started; or configure that server so, and set {OURS}=true on it"
    if private:
        raise UserError(
            f"the log of the Spark Connect server at {_hide_parameters(url)} may quote personal data",
            cause="the pipeline has `pii`, and hiding values in Spark's log must be configured where Spark starts",
            hint=hint,
        )
    if on_s3:
        raise LakeUnsupported(
            f"the Spark Connect server at {_hide_parameters(url)} may lose one of two concurrent commits on S3",
            where=Where(file=_hide_parameters(url)),
            cause="its JVM writes commits without checking whether they exist, unless it is configured to",
            hint=hint,
        )


def unreachable_error(url: str, error: BaseException) -> SparkUnreachable:
    """Return the error for a server that does not answer, or rejects us."""
    problem, hint = "does not answer", "start one with `sluicegate serve`, or use --master"
    if "UNAUTHENTICATED" in str(error):
        problem, hint = "rejects the token", f"set {TOKEN_FILE} to the file with its token"
    server = f"the Spark Connect server at {_hide_parameters(url)}"
    return SparkUnreachable(f"{server} {problem}", cause=_cause(error), hint=hint)


def _cause(error: BaseException) -> str:
    """Return the message of a gRPC error in one line, without the token."""
    text = str(error).replace(token() or "\0", "***") or f"no answer within {ANSWERS_WITHIN:g} s"
    return next((line.strip() for line in text.splitlines() if "details" in line or "message" in line), text[:300])


def _channel(url: str) -> DefaultChannelBuilder:
    """Return the channel to a server, with the token in its metadata."""
    from pyspark.sql.connect import client

    class Channel(client.DefaultChannelBuilder):
        """Channel that honours ``use_ssl=false``, so that a token can be sent over a private network unencrypted.

        Without that parameter Spark takes TLS for every host but ``localhost`` as soon as there is a token. 127.0.0.1
        passes for that name, but is not looked up by it: the name may be ::1 first, where another user may listen.
        """

        def __init__(self, address: str) -> None:
            super().__init__(address, ALIVE)
            self._loopback = self._host == "127.0.0.1"
            if self._loopback:
                self._host = "localhost"

        @property
        def endpoint(self) -> str:
            if self._loopback:
                return f"127.0.0.1:{self._port}"
            return super().endpoint

        @property
        def secure(self) -> bool:
            return self.getDefault(self.PARAM_USE_SSL, "").lower() != "false" and super().secure

        def metadata(self) -> list[tuple[str, str]]:
            pairs = list(super().metadata())
            if self.token is not None and not self.secure:
                pairs.append(("authorization", f"Bearer {self.token}"))
            return pairs

    channel = Channel(url)
    if channel.getDefault(Channel.PARAM_TOKEN, None) is None and (own_token := token()):
        channel.set(Channel.PARAM_TOKEN, own_token)
    return channel
