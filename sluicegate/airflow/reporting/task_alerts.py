"""Notifiers of failed tasks, which have the error's sentence, code and link in their templates.

Airflow calls the callbacks of a DAG where no task runs, with no more than the run; those of a task are called in the
task, which still has its exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow.sdk.bases.notifier import BaseNotifier

from sluicegate.escapes import escape_text

ERROR = "error"
"""Name of the error in the templates of a notifier."""

FACTS = "sluicegate"
"""Attribute of an exception for Airflow: the facts of the error that it was made of."""

REPEATED = "repeated"
"""Fact of an error that another task of the run has raised, and alerted of."""

LOST = "the task ended without a report: it was killed, it lost its worker, or it was queued too long"
"""Sentence about a task that could not say what its error was."""


def first_sentence(text: str) -> str:
    """Return the first line of an error's text; a heading alone says nothing, so the line below it belongs to it."""
    first, *more = [line.strip() for line in text.splitlines()]
    if first.endswith(":") and more:
        return f"{first} {more[0]}"
    return first


@dataclass(frozen=True)
class TaskError:
    """An error of a task, for the templates of a notifier: ``{{ error.sentence }}``.

    Attributes:
        sentence: what happened, in one sentence.
        code: its stable code, such as SG300; empty for what Airflow or Spark raised.
        help: what to do about it; may be empty.
        text: all that the task's page shows of it.
        link: address of the task's page in Airflow.
    """

    sentence: str
    code: str
    help: str
    text: str
    link: str

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> TaskError:
        """Error in a task's context, as passed to callbacks.

        There is none where no task is left that could have it: the DAG processor calls the callback then.
        """
        exception = context.get("exception")
        if exception is None:
            whole = LOST
        else:
            whole = str(exception).strip() or type(exception).__name__
        text = escape_text(whole, keep="\n")
        facts: Mapping[str, Any] = getattr(exception, FACTS, {})
        return cls(
            sentence=escape_text(facts.get("message") or "") or first_sentence(text),
            code=facts.get("code", ""),
            help=escape_text(facts.get("hint", "")),
            text=text,
            link=getattr(context["ti"], "log_url", ""),
        )


class TaskAlert:
    """Callback of a task that calls a notifier, with the error in its context.

    Args:
        notifier: the notifier.
    """

    def __init__(self, notifier: BaseNotifier) -> None:
        self.notifier = notifier

    def __call__(self, context: Mapping[str, Any]) -> None:
        """Notify once a task has failed for good; called by Airflow."""
        self.notifier({**context, ERROR: TaskError.from_context(context)})


class FirstFailureCallback:
    """Callback of a task that repeats the error of another, which is not called for that.

    Args:
        callback: what is called for an error of the task itself.
    """

    def __init__(self, callback: Callable[[Any], Any]) -> None:
        self.callback = callback

    def __call__(self, context: Mapping[str, Any]) -> None:
        """Call it, unless the task before has called its own; called by Airflow."""
        if not getattr(context.get("exception"), FACTS, {}).get(REPEATED):
            self.callback(context)
