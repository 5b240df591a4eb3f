"""Alerts of failed tasks: a notifier that a definition names, called by Airflow's own code with what the error says."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from typing import Any

import pytest

from sluicegate.errors import ExpectationFailed
from tests.conftest import Workspace
from tests.support.airflow_runs import context_of
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import deferred, resumed, task_of
from tests.unit.airflow.test_dag import stored as stored

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home", "stored")]

SMTP = "airflow.providers.smtp.notifications.smtp.SmtpNotifier"
TEXT = "{{ error.code }}|{{ error.sentence }}|{{ error.help }}|{{ error.link }}"
NOTIFY = f"""
notify:
  - when: task_failure
    notifier: {SMTP}
    arguments: {{to: a@example.org, subject: "{{{{ ti.task_id }}}}", html_content: "{TEXT}"}}
database:"""


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What the notifier would send: its subject and text, with their templates rendered by Airflow."""
    from airflow.providers.smtp.notifications.smtp import SmtpNotifier

    found: list[tuple[str, str]] = []
    monkeypatch.setattr(SmtpNotifier, "notify", lambda self, _: found.append((self.subject, self.html_content)))
    return found


def failed(task: Any, exception: BaseException) -> None:
    """Ends a task with an error, as Airflow does."""
    from airflow.sdk.execution_time.task_runner import finalize
    from airflow.utils.state import TaskInstanceState

    context = context_of(task)
    context["exception"] = exception
    log: Any = logging.getLogger()
    finalize(context["ti"], TaskInstanceState.FAILED, context, log, exception)


def test_an_alert_has_the_errors_sentence_code_and_link(workspace: Workspace, sent: list[tuple[str, str]]) -> None:
    from sluicegate.airflow.run_request import failure

    workspace.edit("pipeline.yaml", "\ndatabase:", NOTIFY)
    failed(task_of(workspace, "silver"), failure(ExpectationFailed("3 rows broke valid", hint="look at them")))
    [(subject, text)] = sent
    code, sentence, help_, link = text.split("|")
    assert (subject, code, sentence, help_) == ("silver", "SG300", "3 rows broke valid", "look at them")
    assert link.startswith("http")
    assert "/dags/heart_rate/runs/" in link
    assert link.endswith("/tasks/silver?try_number=1")


@pytest.mark.parametrize(
    ("exception", "sentence"),
    [
        (RuntimeError("reconciliation failed:\n  patients: 1 record is nowhere\n  more"),
         "reconciliation failed: patients: 1 record is nowhere"),
        (RuntimeError("killed\nat once"), "killed"),
        (RuntimeError("alone:"), "alone:"),
        (TimeoutError(), "TimeoutError"),
    ],
)  # fmt: skip
def test_what_others_raise_has_a_sentence_too(
    workspace: Workspace, sent: list[tuple[str, str]], exception: BaseException, sentence: str
) -> None:
    workspace.edit("pipeline.yaml", "\ndatabase:", NOTIFY)
    failed(task_of(workspace, "check_request"), exception)
    assert sent[0][1].split("|")[:3] == ["", sentence, ""]


def test_a_task_whose_worker_was_lost_has_a_sentence(workspace: Workspace, sent: list[tuple[str, str]]) -> None:
    """Then the DAG processor calls the callback, with a context that has no exception."""
    workspace.edit("pipeline.yaml", "\ndatabase:", NOTIFY)
    task = task_of(workspace, "silver")
    (alert,) = task.on_failure_callback
    alert(context_of(task))
    assert sent[0][1].split("|")[:3] == [
        "",
        "the task ended without a report: it was killed, it lost its worker, or it was queued too long",
        "",
    ]


def test_what_the_triggerer_found_has_its_code(workspace: Workspace, sent: list[tuple[str, str]]) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    workspace.edit("pipeline.yaml", "\ndatabase:", NOTIFY)
    _, trigger = deferred(workspace)
    shutil.rmtree(workspace.folder / "landing" / "recordings")
    event = asyncio.run(anext(trigger.run())).payload
    with pytest.raises(AirflowFailException) as raised:
        resumed(workspace, json.loads(json.dumps(event)))
    failed(task_of(workspace, "wait_for_files"), raised.value)
    code, sentence, help_, _ = sent[0][1].split("|")
    assert (code, bool(help_)) == ("SG203", True)
    assert sentence.endswith("landing/recordings does not exist")


def test_a_mistake_in_the_definition_is_alerted_as_well(workspace: Workspace, sent: list[tuple[str, str]]) -> None:
    from airflow.sdk.exceptions import AirflowException

    from sluicegate.airflow.dag import medallion_dags

    workspace.edit("pipeline.yaml", "\ndatabase:", NOTIFY)
    workspace.edit("pipeline.yaml", "event_time: time", "event_tiem: time")
    task: Any = medallion_dags(workspace.settings)["heart_rate"].task_dict["silver"]
    with pytest.raises(AirflowException) as raised:
        task.execute({})
    failed(task, raised.value)
    assert sent[0][1].startswith("SG201|the definition of heart_rate has a mistake")


def test_alerts_stand_beside_those_of_the_dag_file(workspace: Workspace) -> None:
    from sluicegate.airflow.dag import medallion_dags
    from sluicegate.airflow.reporting.task_alerts import TaskAlert

    def theirs(_: Any) -> None:
        """A callback."""

    def count(**arguments: Any) -> list[int]:
        tasks = medallion_dags(workspace.settings, **arguments)["heart_rate"].tasks
        return [len(task.on_failure_callback) for task in tasks]

    assert count() == [0] * 6
    assert count(task_args={"on_failure_callback": theirs}) == [1] * 6
    workspace.edit("pipeline.yaml", "\ndatabase:", NOTIFY)
    assert count() == [1] * 6
    assert count(task_args={"on_failure_callback": theirs}) == [2] * 6
    assert count(dag_args={"default_args": {"on_failure_callback": [theirs]}}) == [2] * 6
    assert isinstance(task_of(workspace, "gold").on_failure_callback[0], TaskAlert)
    dag = medallion_dags(workspace.settings)["heart_rate"]
    assert dag.on_failure_callback is None  # a run that fails is another matter
