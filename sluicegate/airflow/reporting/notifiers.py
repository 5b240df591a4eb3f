"""The notifiers of a definition as callbacks of its DAG and of its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from airflow.sdk.bases.notifier import BaseNotifier

from sluicegate.airflow.reporting.task_alerts import TaskAlert
from sluicegate.definition.pipeline.notify import Notify
from sluicegate.definition.reading import loader
from sluicegate.errors import DefinitionError, Mistake
from sluicegate.settings import Settings

# When a notifier is called for a run, and not for a task.
OF_RUNS = ("failure", "success")


def callbacks(name: str, notify: Sequence[Notify], settings: Settings) -> dict[str, list[BaseNotifier]]:
    """DAG arguments ``on_failure_callback`` and ``on_success_callback``, where the definition asks for them.

    Args:
        name: name of the pipeline.
        notify: what its definition says under ``notify``.
        settings: where things are.

    Raises:
        DefinitionError: a class is missing, is no notifier, or does not take its arguments.
    """
    notifiers: dict[str, list[BaseNotifier]] = {}
    for when, notifier in _create_notifiers(name, notify, settings):
        if when in OF_RUNS:
            notifiers.setdefault(f"on_{when}_callback", []).append(notifier)
    return notifiers


def task_alerts(name: str, notify: Sequence[Notify], settings: Settings) -> list[TaskAlert]:
    """Callbacks of tasks that have failed for good; see ``callbacks``."""
    return [
        TaskAlert(notifier) for when, notifier in _create_notifiers(name, notify, settings) if when == "task_failure"
    ]


def warning_notifiers(name: str, notify: Sequence[Notify], settings: Settings) -> list[BaseNotifier]:
    """Notifiers of alerts that warn; see ``callbacks``."""
    return [notifier for when, notifier in _create_notifiers(name, notify, settings) if when == "warning"]


def readable_callbacks(
    name: str, fields: Mapping[str, Any], settings: Settings
) -> tuple[dict[str, list[BaseNotifier]], list[TaskAlert]]:
    """Callbacks of a definition with mistakes elsewhere: whoever is notified of failures is notified of these.

    Args:
        name: name of the pipeline.
        fields: fields of its definition that can be read.
        settings: where things are.

    Returns:
        those of its DAG, and those of its tasks.
    """
    try:
        notify = [Notify.model_validate(entry) for entry in fields["notify"]]
        return callbacks(name, notify, settings), task_alerts(name, notify, settings)
    except (ValueError, TypeError, KeyError, DefinitionError):
        return {}, []


def _create_notifiers(name: str, notify: Sequence[Notify], settings: Settings) -> Iterator[tuple[str, BaseNotifier]]:
    for index, entry in enumerate(notify):
        try:
            yield entry.when, _notifier(entry)
        except Exception as error:  # of anybody's code
            file = str(settings.pipelines / name / loader.FILE)
            sentence = f"{entry.notifier} cannot be used: {error}"
            hint = "check that its provider is installed and accepts these arguments"
            mistake = Mistake("notifier", f"notify.{index}.notifier", sentence, file, None, hint)
            raise DefinitionError(name, [mistake]) from error


def _notifier(notify: Notify) -> BaseNotifier:
    module, _, name = notify.notifier.rpartition(".")
    kind: Any = getattr(import_module(module), name)
    if not (isinstance(kind, type) and issubclass(kind, BaseNotifier)):
        raise TypeError("it is not an Airflow notifier")
    return kind(**notify.arguments)
