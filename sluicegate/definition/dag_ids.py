"""Ids of a pipeline's DAGs: the pipeline's name, and for each DAG beside that of its runs an end to it. No Airflow."""

from __future__ import annotations

from collections.abc import Collection

OTHERS = ("maintenance", "verify", "alerts")
"""Fields of a definition that give the pipeline another DAG, and what the ids of these end in."""


def dag_id(pipeline: str, other: str) -> str:
    """Id of a DAG beside that of the runs of a pipeline."""
    return f"{pipeline}_{other}"


def dag_ids(pipeline: str) -> tuple[str, ...]:
    """Ids of all DAGs that a pipeline can have, that of its runs first."""
    return (pipeline, *(dag_id(pipeline, one) for one in OTHERS))


def pipeline_of(dag: str, names: Collection[str]) -> str | None:
    """The pipeline that a DAG is of, by its id; None if it is of none of these.

    The DAG of a pipeline's runs comes before another's DAG that would be called so.
    """
    if dag in names:
        return dag
    return next((name for name in names if dag in dag_ids(name)), None)
