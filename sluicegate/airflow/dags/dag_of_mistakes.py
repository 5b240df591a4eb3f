"""DAG of a definition that has mistakes: it fails with them, and keeps what runs under way have.

Airflow gives up the tasks of a run that its DAG no longer has (``removed``), and the run ends without them. So this DAG
has the tasks of the one before, by the fields of the definition that can still be read. A task that starts meanwhile
fails with the mistakes, and is retried: a typo that is mended soon costs a run nothing but the time.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, Asset, BaseOperator, chain
from pydantic_core import PydanticCustomError

from sluicegate.airflow.assets import landing_asset
from sluicegate.airflow.dags.arguments import Arguments
from sluicegate.airflow.dags.new_dag import new_dag
from sluicegate.airflow.reporting.failure_reason import keep_failure_reason
from sluicegate.airflow.reporting.notifiers import readable_callbacks
from sluicegate.airflow.run_request import create_exception
from sluicegate.definition import LAYERS, yaml
from sluicegate.definition.dag_ids import dag_id
from sluicegate.definition.fields import check_cron
from sluicegate.definition.reading import loader
from sluicegate.errors import UserError
from sluicegate.settings import TARGET, Settings
from sluicegate.spark import metastore

if TYPE_CHECKING:
    from airflow.sdk import Context


class DefinitionMistakes(BaseOperator):
    """Operator that fails with the mistakes of a definition.

    Args:
        mistakes: the mistakes.
        final: whether it fails at once, as the first task of a new run does; without it the task is retried.
        kwargs: what every operator takes.
    """

    def __init__(self, *, mistakes: UserError, final: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mistakes = mistakes.for_people()
        self.facts = mistakes.as_dict()
        self.final = final

    @keep_failure_reason
    def execute(self, context: Context) -> None:
        """Fail with the mistakes.

        Raises:
            AirflowException: always.
        """
        raise create_exception(self.mistakes, self.facts, final=self.final)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:
        """Fail with the mistakes where the task had waited for files or an answer; called by Airflow."""
        self.execute(context)


def dags_of_mistakes(name: str, error: UserError, settings: Settings, arguments: Arguments) -> Iterator[DAG]:
    """Yield the DAGs of a definition with mistakes, for runs, maintenance, verification and alerts.

    Args:
        name: name of the pipeline.
        error: mistakes of the definition.
        settings: configuration with the definitions' folder.
        arguments: arguments of the DAG file for all DAGs and tasks, such as callbacks, access and queue.
    """
    fields = _fields(settings.pipelines / name / loader.FILE)
    of_runs, alerts = readable_callbacks(name, fields, settings)
    tasks = arguments.add_alerts(arguments.mistakes_arguments(), alerts)

    def create_dag(id_: str, of: Any, names: list[str], landed: Asset | None = None, **about: Any) -> DAG:
        dag_arguments = arguments.dag_arguments({**_describe_mistakes(error), **about})
        with new_dag(id_, _schedule(of, settings), landed, **dag_arguments) as dag:
            first, *more = names
            first_task = DefinitionMistakes(task_id=first, mistakes=error, final=True, **{**tasks, "retries": 0})
            chain(first_task, *(DefinitionMistakes(task_id=task, mistakes=error, **tasks) for task in more))
        return dag

    yield create_dag(dag_id(name), fields, _tasks(fields), _trigger_asset(name, fields, settings), **of_runs)
    for field, task in (("maintenance", "maintain"), ("verify", "verify"), ("alerts", "alerts")):
        if field in fields:
            yield create_dag(dag_id(name, field), fields[field] or {}, [task])


def _describe_mistakes(error: UserError) -> dict[str, Any]:
    sentence = f"This pipeline does not run, because its definition is invalid:\n\n```\n{error.for_people()}\n```"
    about = {"description": f"Does not run: {error.message}", "doc_md": sentence}
    # An error of anybody's code may name an object by its address, which would make a version of the DAG at each parse.
    return {**{name: re.sub(r" at 0x[0-9a-f]+", "", text) for name, text in about.items()}, "tags": ["mistakes"]}


def _trigger_asset(name: str, fields: Mapping[str, Any], settings: Settings) -> Asset | None:
    """Return the asset of the landing folders if files start the runs; its trigger reports the mistakes once, too."""
    queue = fields.get("queueUrl")
    if fields.get("trigger") != "file_arrival":
        return None
    return landing_asset(name, queue if isinstance(queue, str) else None, settings)


def _fields(file: Path) -> dict[str, Any]:
    """Read the fields of a definition as far as possible, none if the file cannot be opened."""
    try:
        return yaml.sections(file.read_text("utf-8-sig"))
    except (OSError, UnicodeDecodeError):
        return {}


def _tasks(fields: Mapping[str, Any]) -> list[str]:
    """List the tasks that the DAG had before, in order, and all possible ones where the definition does not say."""
    # A misspelt layer is among the mistakes, and its task among those of runs under way.
    layers = [layer for layer in LAYERS if difflib.get_close_matches(layer, fields, 1, 0.6)] or list(LAYERS)
    jobs = ["run"] if fields.get("tasks") == "run" else layers
    return ["check_request", "wait_for_files", *jobs, *(["catalog"] if metastore.address() else []), "account"]


def _schedule(fields: Any, settings: Settings) -> str | None:
    """Return the schedule of a definition with mistakes, unless that is one of them."""
    try:
        chosen = settings.target or os.environ.get(TARGET) or settings.project_target
        target = (fields.get("targets") or {}).get(chosen) or {}
        if "schedule" in target:
            schedule = target["schedule"]
        else:
            schedule = fields["schedule"]
        if isinstance(schedule, str):
            return check_cron(schedule)
        return None
    except (TypeError, KeyError, AttributeError, PydanticCustomError):
        return None
