"""Addresses, tokens and refusals of Spark Connect servers, of which none is started here."""

from __future__ import annotations

import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

from sluicegate.errors import LakeUnsupported, SparkUnreachable, UserError
from sluicegate.launch import spark_server
from sluicegate.settings import Settings
from sluicegate.spark import connect, spark_submit
from tests.conftest import ROOT

pytestmark = pytest.mark.unit

pytestmark = pytest.mark.unit

URL = "sc://localhost:1"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A home without a token, and no server in the environment."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (connect.REMOTE, connect.TOKEN, connect.TOKEN_FILE, "SLUICEGATE_MASTER"):
        monkeypatch.delenv(name, raising=False)
    # Which opening a session sets, and with which PySpark would take other tests for ones of a server.
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")


def test_the_master_of_nobody_is_the_server_that_spark_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(connect.REMOTE, URL)
    assert Settings.of().remote == URL
    assert Settings.of(master="local[2]").remote == ""
    monkeypatch.setenv("SLUICEGATE_MASTER", "spark://there:7077")
    assert Settings.of().remote == ""


def test_a_job_on_a_server_is_this_python_and_no_jvm(tmp_path: Path) -> None:
    settings = Settings.of(str(tmp_path), str(tmp_path), ROOT / "pipelines", URL)
    command = spark_submit.submit_command("run", "heart_rate", settings)
    assert command[:2] == [sys.executable, str(spark_submit.job_file("run"))]
    assert URL not in command
    assert spark_submit.job_env("run", "heart_rate", settings)[connect.REMOTE] == URL


@pytest.mark.parametrize("job", sorted(spark_submit.IN_THE_JVM))
def test_a_job_that_looks_into_its_jvm_has_one(job: str, tmp_path: Path) -> None:
    settings = Settings.of(str(tmp_path), str(tmp_path), tmp_path, URL)
    command = spark_submit.submit_command(job, "heart_rate", settings)
    assert Path(command[0]).name == "spark-submit"
    assert command[command.index("--master") + 1] == "local[*]"
    assert connect.REMOTE not in spark_submit.job_env(job, "heart_rate", settings)


def test_a_gold_table_that_is_a_stream_has_a_jvm_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "heart_rate"
    shutil.copytree(ROOT / "pipelines" / "heart_rate", folder)
    settings = Settings.of(str(tmp_path), str(tmp_path), tmp_path, URL)
    assert spark_submit.is_of_server("run", "heart_rate", settings)
    text = (folder / "pipeline.yaml").read_text()
    (folder / "pipeline.yaml").write_text(text.replace("{sql: device_counts", "{mode: complete, sql: device_counts"))
    for job in sorted(spark_submit.OF_GOLD):
        assert not spark_submit.is_of_server(job, "heart_rate", settings)
    assert spark_submit.is_of_server("silver", "heart_rate", settings)


def test_jobs_that_read_kafka_have_a_jvm_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    topics = "kafka: {bootstrap_servers: 'b:9092', topic: t}"
    (tmp_path / "p" / "pipeline.yaml").write_text(f"name: p\nbronze:\n  b: {{format: kafka, {topics}}}\n")
    settings = Settings.of(str(tmp_path), str(tmp_path), tmp_path, URL)
    assert [spark_submit.is_of_server(job, "p", settings) for job in ("bronze", "run", "continuous")] == [False] * 3
    assert spark_submit.is_of_server("silver", "p", settings)


def test_a_token_comes_from_sparks_variable_or_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert connect.token() == ""
    own = tmp_path / ".sluicegate" / "connect-token"
    own.parent.mkdir()
    own.write_text("of the file\n")
    assert connect.token() == "of the file"
    named = tmp_path / "named"
    monkeypatch.setenv(connect.TOKEN_FILE, str(named))
    with pytest.raises(UserError, match="no token at"):
        connect.token()
    named.write_text("\n")
    with pytest.raises(UserError, match="is empty"):
        connect.token()
    named.write_text("of the named file")
    monkeypatch.setenv(connect.TOKEN, "of the variable")
    assert connect.token() == "of the named file"
    monkeypatch.delenv(connect.TOKEN_FILE)
    assert connect.token() == "of the variable"


def test_a_token_is_made_whole_and_must_be_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "private" / "token"
    assert spark_server.make_token(file)
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    made = file.read_text()
    assert len(made.strip()) > 40
    assert not spark_server.make_token(file)
    assert file.read_text() == made
    assert [*file.parent.iterdir()] == [file]
    file.chmod(0o644)
    with pytest.raises(UserError, match="readable by others") as refused:
        spark_server.make_token(file)
    assert "-rw-r--r--" in refused.value.for_people()
    with pytest.raises(UserError, match="readable by others"):
        spark_server.make_token(file.parent)


@pytest.mark.parametrize("url", ["sc://there/;token=abc==", "sc://there:port/;token=abc", "sc:///;token=abc"])
def test_an_address_that_is_none_is_told_without_its_parameters(url: str) -> None:
    with pytest.raises(UserError, match="is not an address of a Spark Connect server") as refused:
        connect.open_session(url, {})
    assert "abc" not in refused.value.for_people()
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(
    ("url", "secure", "header"),
    [
        ("sc://there:15002", True, False),  # as Spark: a token goes to another machine by TLS only
        ("sc://there:15002/;use_ssl=false", False, True),
        ("sc://127.0.0.1:15002", True, False),
    ],
)
def test_a_token_goes_in_plain_only_where_the_address_says_so(
    url: str, secure: bool, header: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(connect.TOKEN, "secret")
    channel = connect._channel(url)
    assert channel.secure is secure
    # By number, not by a name that may be another user's ::1.
    assert (channel.endpoint == "127.0.0.1:15002") is ("127" in url)
    assert (("authorization", "Bearer secret") in list(channel.metadata())) is header


def test_a_server_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "ANSWERS_WITHIN", 0.3)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(SparkUnreachable, match=f"localhost:{port} does not answer"):
            connect.open_session(f"sc://localhost:{port}", {})


def test_a_server_of_another_spark_or_without_delta_is_refused() -> None:
    delta = {"spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension"}
    connect._demand_usable(URL, delta, pyspark.__version__)
    with pytest.raises(UserError, match="without Delta Lake"):
        connect._demand_usable(URL, {}, pyspark.__version__)
    with pytest.raises(UserError, match=r"has Spark 3\.5\.1, but this Python has"):
        connect._demand_usable(f"{URL}/;token=secret", delta, "3.5.1")


def test_a_server_that_goes_away_is_told_without_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = RuntimeError("[INVALID_HANDLE.SESSION_CHANGED] another session")
    assert connect.lost_server_error(gone) is None  # there is no server
    monkeypatch.setenv(connect.REMOTE, f"{URL}/;token=secret")
    error = connect.lost_server_error(gone)
    assert isinstance(error, SparkUnreachable)
    assert "localhost:1" in error.message
    assert "secret" not in error.for_people()
    assert connect.lost_server_error(RuntimeError("another error")) is None


def test_a_session_that_was_ended_is_no_server_that_went_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(connect.REMOTE, URL)
    for text in (
        "[INVALID_HANDLE.SESSION_CLOSED] The handle x is invalid. Session was closed.",
        "[NO_ACTIVE_SESSION] x",
    ):
        error = connect.lost_server_error(RuntimeError(text))
        assert isinstance(error, SparkUnreachable)
        assert "the session on the Spark Connect server at sc://localhost:1 has ended" in error.message


def test_once_a_server_is_lost_no_other_call_waits_for_it() -> None:
    from grpc import RpcError, StatusCode  # type: ignore[import-untyped]

    class Unavailable(RpcError):  # type: ignore[misc]
        def code(self) -> StatusCode:
            return StatusCode.UNAVAILABLE

        def trailing_metadata(self) -> None:
            """Nothing: the server is not there to say when to come back."""

    policy, away = connect._patience(), Unavailable()
    first, second = policy.to_state(), policy.to_state()
    pauses = [first.next_attempt(away) for _ in range(10)]
    assert 30_000 < sum(pauses) < 50_000
    assert policy.can_retry(away)
    assert connect._patience() is policy
    assert first.next_attempt(away) is None
    assert second.next_attempt(away) is None
    assert not policy.can_retry(away)
    assert connect._patience().can_retry(away)  # that of sessions which are opened later


def test_a_token_is_not_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(connect.TOKEN, "secret")
    error = connect.unreachable_error(URL, RuntimeError('UNAUTHENTICATED: message = "wrong secret"'))
    assert "rejects the token" in error.message
    assert "secret" not in error.cause


def test_an_address_that_is_none_is_the_users_mistake() -> None:
    with pytest.raises(UserError, match="is not an address"):
        connect.open_session("sc://localhost:1/path", {})


class Server:
    """What is asked of a session about its server: one setting."""

    def __init__(self, setting: str | None) -> None:
        self.conf = self
        self._setting = setting

    def get(self, name: str, default: Any) -> Any:
        return self._setting if name == connect.OURS else default


def test_a_server_of_others_gets_no_personal_data_and_no_tables_on_s3() -> None:
    unknown: Any = Server(None)
    connect.demand_suitable_server(unknown, URL, private=False, on_s3=False)
    with pytest.raises(UserError, match="may quote personal data"):
        connect.demand_suitable_server(unknown, URL, private=True, on_s3=False)
    with pytest.raises(LakeUnsupported, match="concurrent commits"):
        connect.demand_suitable_server(unknown, URL, private=False, on_s3=True)
    ours: Any = Server("true")
    connect.demand_suitable_server(ours, URL, private=True, on_s3=True)
