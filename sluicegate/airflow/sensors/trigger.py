"""Triggers for landed files in Airflow's triggerer, where hundreds of waits share one process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from sluicegate.airflow import bundles, connections
from sluicegate.airflow.bundles import Places
from sluicegate.errors import UserError
from sluicegate.settings import Settings
from sluicegate.storage import aws

# Seconds; see FileArrivalTrigger.
AT_LEAST_EVERY = 600.0


class LandedFilesTrigger(BaseTrigger):
    """Fires when a run of the pipeline would have something to do, or when only a person can help.

    Args:
        pipeline: name of the pipeline.
        places: arguments of ``Settings.of``.
        tables: only these tables; none means all.
        every: seconds between two checks.
        bundle: where the definitions are, if a DAG bundle has them (see ``bundles.place_of``).
    """

    def __init__(
        self,
        *,
        pipeline: str,
        places: dict[str, str],
        tables: Sequence[str],
        every: float,
        bundle: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pipeline = pipeline
        self.places = places
        self.tables = tables
        self.every = every
        self.bundle = bundle
        self._places = Places(places, bundle)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Arguments from which the triggerer rebuilds the trigger."""
        arguments = {"pipeline": self.pipeline, "places": self.places, "tables": self.tables, "every": self.every}
        arguments |= {"bundle": self.bundle} if self.bundle else {}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Checks until work waits, each time in a thread: listing a large folder takes seconds.

        An error of a store or the network is raised; it fails the task, which has retries.
        """
        before = ""
        with bundles.in_use(self.bundle):
            while True:
                try:
                    found, message = await asyncio.to_thread(self._find, await connections.said_in_triggerer())
                except UserError as error:
                    yield TriggerEvent({"error": error.for_people()})  # type: ignore[no-untyped-call]
                    return
                if message != before:
                    self.log.info(message)
                    before = message
                if found is not None:
                    yield TriggerEvent({"found": found})  # type: ignore[no-untyped-call]
                    return
                await asyncio.sleep(self.every)

    def _find(self, said: dict[str, str]) -> tuple[dict[str, int] | None, str]:
        with aws.given(said):
            return find_landed(self.pipeline, self._places.settings(), self.tables)


class FileArrivalTrigger(BaseEventTrigger):
    """Fires when files have landed that no event has reported, or when only a person can help; it never ends.

    It checks what the sensor checks, and remembers the answer: files that wait on are reported once. A restarted
    triggerer reports them again, which costs an idle run. What a killed run left behind is ignored, or each step of a
    run at work would start another.

    Args:
        pipeline: name of the pipeline.
        places: arguments of ``Settings.of``.
        every: seconds between two checks.
        queue: URL of a queue with the store's notifications. Then a check follows each message, or comes
            ``AT_LEAST_EVERY`` seconds after the last: a message may be lost, or never sent.
        bundle: where the definitions are, if a DAG bundle has them (see ``bundles.place_of``).
    """

    def __init__(
        self,
        *,
        pipeline: str,
        places: dict[str, str],
        every: float = 30.0,
        queue: str | None = None,
        bundle: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.pipeline = pipeline
        self.places = places
        self.every = every
        self.queue = queue
        self.bundle = bundle
        self._places = Places(places, bundle)
        self._poll_until = 0.0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Arguments from which the triggerer rebuilds the trigger; they are part of the DAG's version."""
        arguments = {"pipeline": self.pipeline, "places": self.places, "every": self.every, "queue": self.queue}
        arguments |= {"bundle": self.bundle} if self.bundle else {}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Checks for ever, each time in a thread: listing a large folder takes seconds.

        An outage of the store or the network is waited out: a failed trigger takes its asset with it.
        """
        before: dict[str, Any] = {}
        while True:
            try:
                answer = await asyncio.to_thread(self._find, await connections.said_in_triggerer())
            except UserError as error:
                answer = {"error": error.for_people()}
            except Exception:
                self.log.warning("could not list the files of %s", self.pipeline, exc_info=True)
                answer = before
            # A table that no longer waits is no news: a run is taking in one after the other.
            if any(before.get(about) != said for about, said in answer.items()):
                yield TriggerEvent(answer)  # type: ignore[no-untyped-call]
            before = answer
            await self._rest()

    async def _rest(self) -> None:
        """Waits until the next check is due: for some seconds, or for a message.

        Messages are deleted once received. The files they announced are polled for until they have settled; if this
        process ends meanwhile, the next one begins with a check.
        """
        now = time.monotonic()
        if self.queue is None or now < self._poll_until:
            await asyncio.sleep(self.every)
            return
        while time.monotonic() < now + AT_LEAST_EVERY:
            try:
                if await asyncio.to_thread(self._messages, await connections.said_in_triggerer()):
                    settled = await asyncio.to_thread(self._settles)
                    self._poll_until = time.monotonic() + settled + self.every
                    return
            except Exception:
                # Falls back to polling, as without a queue.
                self.log.warning("the queue of %s does not answer", self.pipeline, exc_info=True)
                await asyncio.sleep(self.every)
                return

    def _settles(self) -> float:
        return settles(self.pipeline, self._places.settings())

    def _messages(self, said: dict[str, str]) -> bool:
        """Whether the queue had messages; deletes all of them, so that one check is for many."""
        from sluicegate.airflow.sensors.sqs import Queue

        queue = Queue(self.queue or "", said)
        first = found = queue.receive()
        while found:
            queue.delete(found)
            found = queue.receive(0)
        return bool(first)

    def _find(self, said: dict[str, str]) -> dict[str, Any]:
        with aws.given(said):
            return arrived(self.pipeline, self._places.settings())


def settles(name: str, settings: Settings) -> float:
    """Seconds until a file that landed now has settled for all tables of a pipeline."""
    from sluicegate.definition import load

    return max((table.settleSeconds for table in load(name, settings).bronze.values()), default=0.0)


def arrived(name: str, settings: Settings) -> dict[str, Any]:
    """Bronze tables with waiting files or versions of a source Delta table; writes nothing, starts no Spark.

    Args:
        name: name of the pipeline.
        settings: where things are.

    Returns:
        for each its waiting ``files``, ``bytes`` and ``versions``, and ``after``, the progress of its source, by which
        other files of the same number give another answer; empty when nothing waits.

    Raises:
        UserError: see ``find_landed``.
    """
    from sluicegate.definition import load
    from sluicegate.monitor.plan import pending

    pipeline = load(name, settings)
    return {
        work.table: {"files": work.files, "bytes": work.bytes, "versions": work.versions, "after": work.progress.until}
        for work in pending(pipeline, pipeline.settings).tables
        if work.files or work.versions
    }


def find_landed(name: str, settings: Settings, tables: Sequence[str]) -> tuple[dict[str, int] | None, str]:
    """Checks landing, ledger and offsets once, as the jobs do; writes nothing, starts no Spark.

    Args:
        name: name of the pipeline.
        settings: where things are.
        tables: only these tables; none means all.

    Returns:
        number of ``files`` and ``bytes`` that wait, None when a run would do nothing; and what waits, in a sentence.

    Raises:
        UserError: the definition has mistakes, a landing folder is missing, or something else lies where a table
            should be.
    """
    from sluicegate.definition import load
    from sluicegate.monitor.plan import pending  # not above: parsing a DAG file needs neither pyarrow nor deltalake
    from sluicegate.run.request import Request

    pipeline = load(name, settings)
    waiting = pending(pipeline, pipeline.settings).only(Request.of(pipeline, tables=tables).includes)
    found = None if waiting.nothing else {"files": waiting.files, "bytes": waiting.bytes}
    return found, waiting.sentence()
