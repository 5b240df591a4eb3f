"""Operators for jobs of no layer: they change no row, whatever the run's request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sluicegate.airflow.operators.submit import SluicegateJob

if TYPE_CHECKING:
    from airflow.sdk import Context

    from sluicegate.definition import Layer, Pipeline


class PipelineJob(SluicegateJob):
    """Runs a job in ``spark_jobs/`` for all tables of a pipeline.

    Args:
        job: its name.
        kwargs: what SluicegateJob takes, but for the layer.
    """

    def __init__(self, *, job: str, **kwargs: Any) -> None:
        super().__init__(layer=cast("Layer", job), **kwargs)

    def _read_request(self, pipeline: Pipeline, context: Context) -> None:
        """No request: the form is about rows."""

    def _trace(self, pipeline: Pipeline, context: Context) -> None:
        """No lineage: no row comes or goes."""

    def _publish(self, pipeline: Pipeline, context: Context) -> None:
        """No asset event: nothing has changed for readers."""


class Maintenance(PipelineJob):
    """Runs ``spark_jobs/tools/maintain.py``, unless no maintenance is due.

    Args:
        kwargs: what PipelineJob takes, but for the job.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="maintain", **kwargs)

    def _idle_reason(self, pipeline: Pipeline, request: object) -> str:
        from sluicegate.lake import layout

        # not above: parsing a DAG file needs neither pyarrow nor deltalake
        from sluicegate.maintenance import optimize_vacuum

        tables = optimize_vacuum.maintained_tables(pipeline, layout.Lake(self.settings.lake, pipeline.name))
        if any(table.is_due for table in tables):
            return ""
        return "needs no maintenance"


class Verification(PipelineJob):
    """Runs ``spark_jobs/tools/verify.py``, always: it looks for unexpected differences.

    It compares what came or changed since the last verification, or a sample, unless the param ``whole`` is set.

    Args:
        percent: share of files, records and rows that is compared.
        kwargs: what PipelineJob takes, but for the job.
    """

    def __init__(self, *, percent: float = 100, **kwargs: Any) -> None:
        super().__init__(job="verify", **kwargs)
        part = f"--sample={percent:g}"
        if percent >= 100:
            part = "--since-last"
        chosen = f"{{{{ '--sample=100' if params.get('whole') else '{part}' }}}}"
        self.application_args = [*self.application_args, chosen]

    def _idle_reason(self, pipeline: Pipeline, request: object) -> str:
        return ""


class Catalog(PipelineJob):
    """Runs ``spark_jobs/tools/catalog.py``, unless all tables are registered.

    Args:
        kwargs: what PipelineJob takes, but for the job.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(job="catalog", **kwargs)

    def _idle_reason(self, pipeline: Pipeline, request: object) -> str:
        from sluicegate.lake import layout
        from sluicegate.maintenance import catalog

        if catalog.is_due(pipeline, layout.Lake(self.settings.lake, pipeline.name)):
            return ""
        return "has no new table"
