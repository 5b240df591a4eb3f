"""Where a run finds its things: the lake, the landing, the definitions, the Spark master."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent

# What a job needs besides the package (spark_jobs/, the samples of the warm-up) lies beside it in a checkout; a wheel
# carries it inside.
HOME = PACKAGE if (PACKAGE / "spark_jobs").is_dir() else PACKAGE.parent


@dataclass(frozen=True)
class Settings:
    """The four places that every command takes.

    Attributes:
        lake: path or URI of the tables' root.
        landing: path or URI of the folder that files arrive in; ``${landing}`` in a definition.
        pipelines: folder with one folder for each pipeline.
        master: Spark master, as spark-submit takes it.
    """

    lake: str
    landing: str
    pipelines: Path
    master: str

    @classmethod
    def of(
        cls,
        lake: str | None = None,
        landing: str | None = None,
        pipelines: str | Path | None = None,
        master: str | None = None,
    ) -> Settings:
        """What was given, else ``SLUICEGATE_*`` of the environment, else a folder below the current one."""
        return cls(
            lake=_place(lake or os.environ.get("SLUICEGATE_LAKE") or "lake"),
            landing=_place(landing or os.environ.get("SLUICEGATE_LANDING") or "landing"),
            pipelines=Path(pipelines or os.environ.get("SLUICEGATE_PIPELINES") or "pipelines").absolute(),
            master=master or os.environ.get("SLUICEGATE_MASTER") or "local[*]",
        )

    @property
    def arguments(self) -> dict[str, str]:
        """The arguments of ``of`` that give the same: for another process, as texts."""
        return {name: str(value) for name, value in vars(self).items()}


def _place(place: str) -> str:
    """A URI as Spark has it, a path made absolute: spark-submit and Airflow run in other folders than the person."""
    if place.startswith("s3://"):
        place = place.replace("s3://", "s3a://", 1)
    return place.rstrip("/") if "://" in place else os.path.abspath(Path(place).expanduser())
