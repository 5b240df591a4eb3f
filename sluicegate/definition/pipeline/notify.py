"""Model of notifications: Airflow notifiers, called when a run of a pipeline ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, field_validator

from sluicegate.definition.fields import Part, field_error

_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")
_SECRET = re.compile(r"pass(word|wd|phrase)|secret|token|api_?key|credential", re.IGNORECASE)


def _refuse_secrets(values: dict[str, Any]) -> dict[str, Any]:
    for name in _nested_names(values):
        if _SECRET.search(name):
            hint = "store it in an Airflow connection, and reference that by its id"
            raise field_error("secret", f"{name} looks like a secret, which a definition must not contain", hint)
    return values


# Values by names, none of which is that of a secret, at any depth.
WithoutSecrets = Annotated[dict[str, Any], AfterValidator(_refuse_secrets)]


class Notify(Part):
    """An Airflow notifier that is called when a run ends.

    Attributes:
        when: ``failure``, ``success``: a run of the pipeline has failed or succeeded; ``task_failure``: a task has
            failed for good; ``warning``: an alert has exceeded its limit ``warn``. Templates of the last two have
            ``{{ error.sentence }}``, ``{{ error.code }}``, ``{{ error.help }}`` and ``{{ error.link }}``.
        notifier: the class, as ``airflow.providers.smtp.notifications.smtp.SmtpNotifier``.
        arguments: arguments of the class, such as a connection's id and recipients. Secrets belong in the connection.
    """

    when: Literal["failure", "success", "task_failure", "warning"] = "failure"
    notifier: str
    arguments: WithoutSecrets = {}

    @field_validator("notifier")
    @classmethod
    def _check_class_path(cls, notifier: str) -> str:
        if not _PATH.fullmatch(notifier):
            hint = "for example airflow.providers.smtp.notifications.smtp.SmtpNotifier"
            raise field_error("notifier", f"{notifier} is not a class path such as module.Class", hint)
        return notifier


def _nested_names(value: Any) -> Iterator[str]:
    """Yield all names in a value, at any depth."""
    if isinstance(value, dict):
        yield from (str(name) for name in value)
        value = list(value.values())
    if isinstance(value, list):
        for element in value:
            yield from _nested_names(element)
