"""Ids of a pipeline's DAGs: the pipeline's name, and for each DAG beside that of its runs an end to it. No Airflow."""

from __future__ import annotations

import re
from collections.abc import Collection

# Fields of a definition that give the pipeline another DAG, and what the ids of these end in.
OTHERS = ("maintenance", "verify", "alerts")

# Characters that Airflow takes in an id.
LONGEST = 250


def dag_id(pipeline: str, other: str = "") -> str:
    """Return the id of a pipeline's DAG: that of its runs, or another.

    A folder may have a name that no pipeline can have, as ``orders (copy)``. The id of its DAG has ``-`` for characters
    that Airflow refuses: with an error in place of this DAG, the file would have no DAGs at all.

    Args:
        pipeline: name of the pipeline, or of its folder.
        other: a suffix of ``OTHERS``, empty for the DAG of runs.
    """
    end = ""
    if other:
        end = f"_{other}"
    return (re.sub(r"[^\w.-]", "-", pipeline)[: LONGEST - len(end)] or "-") + end


def dag_ids(pipeline: str) -> tuple[str, ...]:
    """Return ids of all DAGs that a pipeline can have, that of its runs first."""
    return tuple(dag_id(pipeline, suffix) for suffix in ("", *OTHERS))


def pipeline_of(dag: str, names: Collection[str]) -> str | None:
    """Return the pipeline of a DAG by its id, None if it is of none of these.

    A DAG of runs takes precedence over another pipeline's DAG with the same id.
    """
    if dag in names:
        return dag
    return next((name for name in names if dag in dag_ids(name)), None)
