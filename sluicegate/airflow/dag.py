"""One DAG for each pipeline definition."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

from airflow.sdk import DAG, Asset, AssetWatcher, BaseOperator, chain

from sluicegate import definition
from sluicegate.airflow import doc_md
from sluicegate.airflow.assets import described
from sluicegate.airflow.dag_of_mistakes import dags_of_mistakes
from sluicegate.airflow.new_dag import new_dag, step
from sluicegate.airflow.notifiers import callbacks
from sluicegate.airflow.operators.check_request import CheckRequest
from sluicegate.airflow.operators.maintenance import Catalog, Maintenance, Verification
from sluicegate.airflow.operators.reconcile import Account
from sluicegate.airflow.operators.submit import SluicegateJob
from sluicegate.airflow.params import form
from sluicegate.airflow.retries import ENDS_WITHIN, READ_RETRIES, RETRIES
from sluicegate.airflow.sensors.landed_files import LandedFilesSensor
from sluicegate.definition import loader
from sluicegate.errors import DefinitionError, PipelineMissing
from sluicegate.settings import Settings
from sluicegate.spark import metastore

log = logging.getLogger(__name__)


def settings_below(root: Path, target: str | None = None) -> Settings:
    """Settings from ``SLUICEGATE_*`` in the environment, else folders below ``root``; those of a target come before.

    Not below the working directory, as on a command line: Airflow's processes each have one of their own.

    Args:
        root: folder of the lake, the landing and the definitions.
        target: target of the pipelines that have targets; by default that of ``SLUICEGATE_TARGET``.
    """
    places = {
        name: os.environ.get(f"SLUICEGATE_{name.upper()}") or str(root / name)
        for name in ("lake", "landing", "pipelines")
    }
    return replace(Settings.of(**places, target=target), given=frozenset({"pipelines"}))


def medallion_dag(name: str, settings: Settings) -> DAG:
    """DAG of a pipeline, its tasks one after another.

    A check of the request, a sensor for landed files, a job for each layer that has tables (or, as the definition says,
    one for all of them), and the reconciliation.

    Args:
        name: name of the pipeline, which becomes that of the DAG.
        settings: where things are.

    Raises:
        PipelineMissing: there is no such pipeline.
        DefinitionError: its definition has mistakes.
    """
    pipeline = definition.load(name, settings)
    return _of_runs(pipeline, pipeline.settings)


def _of_runs(pipeline: definition.Pipeline, settings: Settings) -> DAG:
    about = {"doc_md": doc_md.of_dag(pipeline), "params": form(pipeline), **_of_pipeline(pipeline, settings)}
    watched = _watched(pipeline, settings) if pipeline.trigger else None
    with new_dag(pipeline.name, pipeline.schedule, watched, description=pipeline.description, **about) as dag:
        chain(*_tasks(pipeline, settings))
    return dag


def _of_maintenance(pipeline: definition.Pipeline, settings: Settings) -> Iterator[DAG]:
    """Maintenance DAG of a pipeline, if its definition asks for one."""
    if pipeline.maintenance is None:
        return
    about = {"doc_md": doc_md.MAINTENANCE, **_of_pipeline(pipeline, settings)}
    said = f"Maintains the tables of {pipeline.name}."
    with new_dag(f"{pipeline.name}_maintenance", pipeline.maintenance.schedule, description=said, **about) as dag:
        Maintenance(
            task_id="maintain",
            doc_md=doc_md.MAINTENANCE,
            pipeline=pipeline.name,
            settings=settings,
            execution_timeout=ENDS_WITHIN,
            **RETRIES,
        )
    yield dag


def _of_verification(pipeline: definition.Pipeline, settings: Settings) -> Iterator[DAG]:
    """Verification DAG of a pipeline, if its definition asks for one."""
    if pipeline.verify is None:
        return
    about = {"doc_md": doc_md.VERIFY, **_of_pipeline(pipeline, settings)}
    said = f"Proves the tables of {pipeline.name}."
    with new_dag(f"{pipeline.name}_verify", pipeline.verify.schedule, description=said, **about) as dag:
        Verification(
            task_id="verify",
            doc_md=doc_md.VERIFY,
            pipeline=pipeline.name,
            settings=settings,
            percent=pipeline.verify.percent,
            execution_timeout=ENDS_WITHIN,
            **RETRIES,
        )
    yield dag


def _of_pipeline(pipeline: definition.Pipeline, settings: Settings) -> dict[str, Any]:
    """DAG arguments common to all DAGs of a pipeline."""
    about = {"tags": pipeline.tags, "default_args": {"owner": pipeline.owner}}
    return about | callbacks(pipeline.name, pipeline.notify, settings)


def _tasks(pipeline: definition.Pipeline, settings: Settings) -> Iterator[BaseOperator]:
    """Tasks of the DAG in context, in their order."""
    subject: dict[str, Any] = {"pipeline": pipeline.name, "settings": settings}
    yield CheckRequest(task_id="check_request", doc_md=doc_md.CHECK, **subject, **READ_RETRIES)
    # An event-driven run need not wait for files: it would wait on beside each later run that an event starts.
    limit = timedelta(0) if pipeline.trigger else step(pipeline.schedule)
    yield LandedFilesSensor(task_id="wait_for_files", doc_md=doc_md.WAIT, timeout=limit, **subject, **READ_RETRIES)
    layers = [layer for layer in definition.LAYERS if getattr(pipeline, layer)]
    if layers and pipeline.tasks == "run":
        yield _job(pipeline, "run", layers, doc_md.of_run(pipeline), settings)
    else:
        for layer in layers:
            yield _job(pipeline, layer, [layer], doc_md.of_layer(pipeline, layer), settings)
    if metastore.address():
        yield Catalog(task_id="catalog", doc_md=doc_md.CATALOG, execution_timeout=ENDS_WITHIN, **subject, **RETRIES)
    yield Account(
        task_id="account", doc_md=doc_md.RECONCILIATION, execution_timeout=ENDS_WITHIN, **subject, **READ_RETRIES
    )


def _job(
    pipeline: definition.Pipeline,
    job: definition.Layer | Literal["run"],
    layers: list[definition.Layer],
    about: str,
    settings: Settings,
) -> SluicegateJob:
    """Task of a layer, or of all of them. (Its own tables are inlets too: it looks up their last asset event.)"""
    tables = [name for layer in layers for name in pipeline.names(layer)]
    return SluicegateJob(
        task_id=job,
        doc_md=about,
        layer=job,
        inlets=_assets(pipeline, [*_before(pipeline, layers[0]), *tables]),
        outlets=_assets(pipeline, tables),
        execution_timeout=ENDS_WITHIN * len(layers),
        pipeline=pipeline.name,
        settings=settings,
        **RETRIES,
    )


def _watched(pipeline: definition.Pipeline, settings: Settings) -> Asset:
    """Asset of a pipeline's landing folders, with an event whenever files have landed in them."""
    from sluicegate.airflow.sensors.trigger import FileArrivalTrigger

    trigger = FileArrivalTrigger(pipeline=pipeline.name, places=settings.places, queue=pipeline.queueUrl)
    watcher = AssetWatcher(name="file_arrival", trigger=trigger)
    return Asset(name=f"{pipeline.name}.landing-files", watchers=[watcher])  # no table's name has a - in it


def _assets(pipeline: definition.Pipeline, tables: list[str]) -> list[Asset]:
    return [described(pipeline, table) for table in tables]


def _before(pipeline: definition.Pipeline, layer: definition.Layer) -> list[str]:
    """Tables of the previous layer."""
    index = definition.LAYERS.index(layer)
    return pipeline.names(definition.LAYERS[index - 1]) if index else []


def medallion_dags(settings: Settings) -> dict[str, DAG]:
    """DAGs of all definitions, by id. A definition with mistakes gets a DAG that only reports them.

    Airflow has no import error for one DAG among several of a file: whatever ends up among the import errors of a file
    (an exception at its end, or one from ``DAG.validate``) also makes ``_update_import_errors`` mark *all* DAGs of that
    file as stale, and no pipeline would run for a typo in another's definition. So the DAG stays, with its history and,
    where that can still be read, its schedule; it shows the mistakes as its documentation, and each run fails at once
    with them, so that whoever is notified of failed runs is notified of this.

    Raises:
        PipelineMissing: there is no definition at all.
    """
    names = definition.names(settings.pipelines)
    if not names:
        raise PipelineMissing(
            f"there is no pipeline definition in {settings.pipelines}",
            hint=f"make NAME/{loader.FILE} there, or say with SLUICEGATE_PIPELINES where the definitions are",
        )
    dags: dict[str, DAG] = {}
    for name in names:
        try:
            pipeline = definition.load(name, settings, of_many=True)
            made = [_of_runs(pipeline, pipeline.settings), *_of_maintenance(pipeline, pipeline.settings)]
            made += _of_verification(pipeline, pipeline.settings)
            dags |= {dag.dag_id: dag for dag in made}
        except DefinitionError as error:
            log.error("%s", error.for_people())
            dags |= {dag.dag_id: dag for dag in dags_of_mistakes(name, error, settings)}
    return dags
