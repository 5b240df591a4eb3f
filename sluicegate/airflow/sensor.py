"""Waits until there is something to do."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from sluicegate.definition import load
from sluicegate.errors import UserError
from sluicegate.settings import Settings

if TYPE_CHECKING:
    from airflow.sdk import Context


class LandedFilesSensor(BaseSensorOperator):
    """Succeeds when a run of the pipeline would have something to do.

    That is: files have landed that the ledger does not know and that are not still being written, a Delta table that is
    a source has new versions, or a former run was killed and left a table behind the one before it. It asks the very
    code that the jobs ask, and writes nothing. Between two looks it holds no worker. When nothing comes it ends as
    *skipped*, and so do the jobs after it.

    Args:
        pipeline: name of the pipeline.
        settings: where things are.
        poke_interval: seconds between two looks.
        timeout: seconds after which it gives up.
        kwargs: what every sensor takes.
    """

    def __init__(
        self,
        *,
        pipeline: str,
        settings: Settings,
        poke_interval: timedelta | float = 30,
        timeout: timedelta | float = 3600,
        mode: str = "reschedule",
        soft_fail: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout, mode=mode, soft_fail=soft_fail, **kwargs)
        self.pipeline = pipeline
        self.settings = settings

    def poke(self, context: Context) -> bool:
        """Looks once.

        Raises:
            UserError: the definition has mistakes, a landing folder is missing, or something else lies where a table
                should be.
        """
        from sluicegate.plan import pending  # not above: parsing a DAG file needs neither pyarrow nor deltalake

        waiting = pending(load(self.pipeline, self.settings), self.settings)
        self.log.info(waiting.sentence())
        return not waiting.nothing

    def execute(self, context: Context) -> Any:
        """Looks, and ends or gives the worker back.

        Raises:
            AirflowFailException: only a person can help; it is not tried again.
        """
        # Not in poke: BaseSensorOperator takes an AirflowFailException from there for a reason to skip when soft_fail
        # is set, and a missing folder must not look like a quiet day.
        try:
            return super().execute(context)
        except UserError as error:
            raise AirflowFailException(error.for_people()) from None
