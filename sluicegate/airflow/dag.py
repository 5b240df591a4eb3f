"""One DAG for each pipeline definition."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, get_parsing_context

from sluicegate import definition
from sluicegate.airflow.dags.arguments import Arguments
from sluicegate.airflow.dags.dag_of_mistakes import dags_of_mistakes
from sluicegate.airflow.dags.new_dag import register_dag
from sluicegate.airflow.dags.pipeline_dags import PipelineDags
from sluicegate.definition.dag_ids import dag_ids
from sluicegate.definition.reading import loader
from sluicegate.errors import DefinitionError, Mistake, PipelineMissing, UserError
from sluicegate.settings import Settings, resolve_settings

log = logging.getLogger(__name__)


def settings_below(root: Path, target: str | None = None) -> Settings:
    """Settings from ``SLUICEGATE_*`` in the environment, else of the project's file in ``root`` or above, else folders.

    Those folders are below ``root``, and not below the working directory, as on a command line: Airflow's processes
    each have one of their own. What a target says comes before. Other settings of the file become variables here.

    Args:
        root: folder of the lake, the landing and the definitions.
        target: target of the pipelines that have targets; by default that of ``SLUICEGATE_TARGET``.

    Raises:
        SettingsError: the project's file has mistakes.
    """
    flags = {"target": target}
    resolved = resolve_settings(flags, root)
    resolved.export()
    return replace(Settings.from_resolved(flags, resolved), given=frozenset({"pipelines"}))


def medallion_dag(
    name: str,
    settings: Settings,
    *,
    task_args: Mapping[str, Any] | None = None,
    dag_args: Mapping[str, Any] | None = None,
) -> DAG:
    """DAG of a pipeline's runs.

    Args:
        name: name of the pipeline, which becomes that of the DAG.
        settings: where things are.
        task_args: see ``medallion_dags``.
        dag_args: see ``medallion_dags``.

    Raises:
        PipelineMissing: there is no such pipeline.
        DefinitionError: its definition has mistakes.
        UserError: an argument is unknown, or is not the DAG file's to give.
    """
    pipeline = definition.load(name, settings)
    return register_dag(PipelineDags(pipeline, Arguments.from_dag_file(task_args, dag_args)).runs())


def medallion_dags(
    settings: Settings,
    *,
    only: Collection[str] | None = None,
    task_args: Mapping[str, Any] | None = None,
    dag_args: Mapping[str, Any] | None = None,
) -> dict[str, DAG]:
    """DAGs of definitions, by id. A definition with mistakes, or one that is named and missing, gets DAGs that say so.

    A task that starts parses the DAG file again, and gets the DAGs of its own pipeline alone: the others are not read.

    Airflow has no import error for one DAG among several of a file: whatever ends up among the import errors of a file
    (an exception at its end, or one from ``DAG.validate``) also makes ``_update_import_errors`` mark *all* DAGs of that
    file as stale, and no pipeline would run for a typo in another's definition. So the DAG stays, with its history, the
    tasks of its runs under way and, where that can still be read, its schedule; it shows the mistakes as its
    documentation, and each run fails at once with them, so that whoever is notified of failed runs is notified of this.

    Args:
        settings: where things are.
        only: names of the pipelines; all by default. With a DAG file for each of hundreds, Airflow reads them beside
            each other, and a new one at once.
        task_args: arguments of all tasks, such as ``queue``, as Airflow's operators take them; those that only
            SparkSubmission takes, such as ``conn_id`` and ``conf``, are for the jobs. What a definition says under
            ``airflow`` comes before them.
        dag_args: arguments of all DAGs, such as ``access_control``.

    Raises:
        PipelineMissing: there is no definition at all.
        UserError: an argument is unknown, or is not the DAG file's to give.
    """
    arguments = Arguments.from_dag_file(task_args, dag_args)
    if isinstance(only, str):  # each of its letters would get a DAG that says that there is no such pipeline
        raise UserError(f"only must be a list of names, not the string {only}", hint=f'write only=["{only}"]')
    names = definition.names(settings.pipelines)  # one look at the folder, whatever is wanted of it
    if not names:
        raise PipelineMissing(
            f"no pipeline definition found in {settings.pipelines}",
            hint=f"create NAME/{loader.FILE} there, or set SLUICEGATE_PIPELINES to the folder of the definitions",
        )
    dags: dict[str, DAG] = {}
    for name in sorted(only) if only is not None else names:
        if not _is_parsed(name):
            continue
        try:
            pipeline = definition.load(name, settings, of_many=True)
            dags |= {dag.dag_id: dag for dag in list(PipelineDags(pipeline, arguments).all_dags())}
        except UserError as error:  # mistakes; or the folder is gone, since it was named or since the look at all
            dags |= _dags_of_mistakes(name, error, settings, arguments)
        except Exception as error:  # whatever Airflow or a notifier has against one of them, the others have their DAGs
            sentence = f"Airflow cannot create its DAGs: {type(error).__name__}: {error}"
            log.exception("the DAGs of %s cannot be created", name)
            mistake = Mistake("dag", name, sentence, str(settings.pipelines / name / loader.FILE), None)
            dags |= _dags_of_mistakes(name, DefinitionError(name, [mistake]), settings, arguments)
    return {name: register_dag(dag) for name, dag in dags.items()}


def _dags_of_mistakes(name: str, error: UserError, settings: Settings, arguments: Arguments) -> dict[str, DAG]:
    log.error("%s", error.for_people())
    return {dag.dag_id: dag for dag in dags_of_mistakes(name, error, settings, arguments)}


def _is_parsed(name: str) -> bool:
    """Whether a pipeline has the DAG for which Airflow parses the file: all of them, or that of a task that starts."""
    parsed_dag = get_parsing_context().dag_id
    return parsed_dag is None or parsed_dag in dag_ids(name)
