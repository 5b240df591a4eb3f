"""The sensor's look from Airflow's triggerer, where hundreds of waits share one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from sluicegate.airflow import store
from sluicegate.errors import UserError
from sluicegate.settings import Settings


class LandedFilesTrigger(BaseTrigger):
    """Fires when a run of the pipeline would have something to do, or when only a person can help.

    Args:
        pipeline: name of the pipeline.
        places: where things are: the arguments of ``Settings.of``.
        tables: only these tables; none means all.
        every: seconds between two looks.
    """

    def __init__(self, *, pipeline: str, places: dict[str, str], tables: Sequence[str], every: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pipeline = pipeline
        self.places = places
        self.tables = tables
        self.every = every

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What the triggerer makes it again of."""
        arguments = {"pipeline": self.pipeline, "places": self.places, "tables": self.tables, "every": self.every}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Looks until there is something, each time in a thread: listing a large folder takes seconds.

        An error of a store or the network is raised; it fails the task, which has retries.
        """
        before = ""
        while True:
            try:
                found, told = await asyncio.to_thread(self._look, await store.said_in_triggerer())
            except UserError as error:
                yield TriggerEvent({"error": error.for_people()})  # type: ignore[no-untyped-call]
                return
            if told != before:
                self.log.info(told)
                before = told
            if found is not None:
                yield TriggerEvent({"found": found})  # type: ignore[no-untyped-call]
                return
            await asyncio.sleep(self.every)

    def _look(self, said: dict[str, str]) -> tuple[dict[str, int] | None, str]:
        from sluicegate import stores  # not above: parsing a DAG file needs neither pyarrow nor deltalake

        with stores.given(said):
            return look(self.pipeline, Settings.of(**self.places), self.tables)


def look(name: str, settings: Settings, tables: Sequence[str]) -> tuple[dict[str, int] | None, str]:
    """Looks once at landing, ledger and marks, as the jobs do; writes nothing, starts no Spark.

    Args:
        name: name of the pipeline.
        settings: where things are.
        tables: only these tables; none means all.

    Returns:
        how many files of how many bytes wait, None when a run would do nothing; and what waits, in a sentence.

    Raises:
        UserError: the definition has mistakes, a landing folder is missing, or something else lies where a table
            should be.
    """
    from sluicegate.definition import load
    from sluicegate.plan import pending  # not above: parsing a DAG file needs neither pyarrow nor deltalake
    from sluicegate.request import Request

    pipeline = load(name, settings)
    waiting = pending(pipeline, settings).only(Request.of(pipeline, tables=tables).includes)
    found = None if waiting.nothing else {"files": waiting.files, "bytes": waiting.bytes}
    return found, waiting.sentence()
