"""The task that looks at limits, by Airflow's own code: what is told, and to whom, and what is not told twice."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email import message_from_string
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from sluicegate.airflow.operators.alerts import alerts_to_report
from sluicegate.monitor.alerts import Alert
from tests.conftest import Workspace
from tests.support.airflow_runs import context_of
from tests.unit.airflow.test_dag import airflow_home as airflow_home

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def late(level: Any) -> Alert:
    return Alert("freshness", "t", "", level, "the last change was at noon", "after 1 day")


@pytest.mark.parametrize(
    ("before", "level", "after", "told"),
    [
        ({}, "fail", timedelta(), True),
        ({}, "ok", timedelta(), False),
        ({"level": "fail"}, "fail", DAY - timedelta(seconds=1), False),
        ({"level": "fail"}, "fail", DAY, True),
        ({"level": "warn"}, "fail", timedelta(minutes=15), True),
        ({"level": "fail"}, "warn", timedelta(minutes=15), True),
        ({"level": "fail"}, "ok", timedelta(minutes=15), False),
    ],
)
def test_what_stays_is_told_once_a_day(before: dict[str, str], level: str, after: timedelta, told: bool) -> None:
    known = {"freshness of t": before | {"at": NOW.isoformat()}} if before else {}
    new, state = alerts_to_report([late(level)], known, NOW + after, DAY)
    assert bool(new) is told
    assert ("freshness of t" in state) is (level != "ok")
    if told:
        assert state["freshness of t"] == {"level": level, "at": (NOW + after).isoformat()}


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The XComs that a task asks its supervisor to store, and to find."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import GetXCom, SetXCom, XComResult

    kept: dict[str, Any] = {}

    class Supervisor:
        def send(self, message: Any) -> Any:
            if isinstance(message, SetXCom):
                kept[message.key] = message.value
            if isinstance(message, GetXCom):
                assert message.include_prior_dates
                return XComResult(key=message.key, value=kept.get(message.key))
            return None

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Supervisor(), raising=False)
    return kept


def task(workspace: Workspace) -> Any:
    from airflow.sdk import DAG

    from sluicegate.airflow.dag import medallion_dags

    dag: DAG = medallion_dags(workspace.settings)["heart_rate_alerts"]
    assert dag.max_active_runs == 1
    return dag.task_dict["alerts"]


def limit(workspace: Workspace, text: str, notify: str = "") -> None:
    workspace.edit("pipeline.yaml", "\nbronze:", f"\nalerts: {text}\n{notify}\nbronze:")


def test_a_limit_that_is_passed_fails_once_and_is_skipped_then(workspace: Workspace, stored: dict[str, Any]) -> None:
    from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

    limit(workspace, "{freshness: {recordings_bronze: {fail: 1 day}}}")
    look = task(workspace)
    with pytest.raises(AirflowFailException, match="nothing has arrived yet, and it fails after 1 day") as raised:
        look.execute(context_of(look))
    assert raised.value.sluicegate["code"] == "SG305"  # type: ignore[attr-defined]
    with pytest.raises(AirflowSkipException, match="reported before"):
        look.execute(context_of(look))
    stored["alerts"]["freshness of recordings_bronze"]["at"] = (datetime.now(UTC) - DAY).isoformat()
    with pytest.raises(AirflowFailException):
        look.execute(context_of(look))


def test_what_is_within_its_limits_is_what_the_task_returns(workspace: Workspace, stored: dict[str, Any]) -> None:
    limit(workspace, "{rule_rate: {recordings_enriched: {valid_heartrate: {fail: 1}}}}")
    look = task(workspace)
    [found] = look.execute(context_of(look))
    assert (found["level"], stored["alerts"]) == ("ok", {})


SMTP = """
notify:
  - when: warning
    notifier: airflow.providers.smtp.notifications.smtp.SmtpNotifier
    arguments:
      {to: a@example.org, from_email: us@example.org, subject: "{{ ti.task_id }}", html_content: "{{ error.sentence }}"}
"""


def test_a_warning_is_sent_once_and_fails_nothing(
    workspace: Workspace, stored: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.smtp.notifications.smtp import SmtpNotifier

    sent: list[tuple[str, str]] = []
    monkeypatch.setattr(SmtpNotifier, "notify", lambda self, _: sent.append((self.subject, self.html_content)))
    limit(workspace, "{freshness: {recordings_bronze: {warn: 1 day}}}", SMTP)
    look = task(workspace)
    for _ in range(2):
        look.execute(context_of(look))
    assert sent == [("alerts", "freshness of recordings_bronze: nothing has arrived yet, and it warns after 1 day")]


# --- against servers -------------------------------------------------------------------------------------------------


@pytest.fixture
def mails() -> Iterator[tuple[int, list[str]]]:
    """A mail server of this machine, with the texts that it took."""
    taken: list[str] = []
    server = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=_serve_mail, args=(server, taken), daemon=True)
    thread.start()
    yield server.getsockname()[1], taken
    server.close()


def _serve_mail(server: socket.socket, taken: list[str]) -> None:
    """Speaks as much SMTP as one client needs."""
    connection, _ = server.accept()
    lines = connection.makefile("rb")
    say: Callable[[str], None] = lambda text: connection.sendall(f"{text}\r\n".encode())  # noqa: E731
    say("220 here")
    for line in lines:
        word = line[:4].upper()
        if word == b"DATA":
            say("354 go on")
            taken.append(b"".join(iter(lines.readline, b".\r\n")).decode())
        if word == b"QUIT":
            say("221 bye")
            connection.close()
            return
        say("250 well")


def test_a_warning_comes_by_mail(
    workspace: Workspace, stored: dict[str, Any], mails: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port, taken = mails
    options = "%7B%22disable_ssl%22%3A+true%2C+%22disable_tls%22%3A+true%7D"
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", f"smtp://127.0.0.1:{port}/?__extra__={options}")
    limit(workspace, "{freshness: {recordings_bronze: {warn: 1 day}}}", SMTP)
    look = task(workspace)
    look.execute(context_of(look))
    [part] = message_from_string(taken[0]).get_payload()
    assert "nothing has arrived yet" in part.get_payload(decode=True).decode()  # type: ignore[union-attr]


def test_a_warning_comes_to_slack(
    workspace: Workspace, stored: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("airflow.providers.slack")
    taken: list[bytes] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/hook"
        monkeypatch.setenv("AIRFLOW_CONN_SLACK", f'{{"conn_type": "slackwebhook", "password": "{address}"}}')
        kind = "airflow.providers.slack.notifications.slack_webhook.SlackWebhookNotifier"
        notify = f"""
notify:
  - when: warning
    notifier: {kind}
    arguments: {{slack_webhook_conn_id: slack, text: "{{{{ error.sentence }}}}"}}
"""
        limit(workspace, "{freshness: {recordings_bronze: {warn: 1 day}}}", notify)
        look = task(workspace)
        look.execute(context_of(look))
    finally:
        server.shutdown()
    assert b"nothing has arrived yet" in taken[0]
