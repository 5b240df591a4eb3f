"""Triggers for landed files in Airflow's triggerer, where hundreds of waits share one process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

from sluicegate.airflow import bundles, connections
from sluicegate.airflow.bundles import Places
from sluicegate.airflow.sensors.check import Arrived, FilesWaiting, find_arrived, find_landed, settle_seconds
from sluicegate.airflow.sensors.sqs import Queue
from sluicegate.definition.reading.reloaded import Reloaded
from sluicegate.errors import DamagedTable, UserError
from sluicegate.escapes import escape_text
from sluicegate.storage import aws

# Seconds; see FileArrivalTrigger.
AT_LEAST_EVERY = 600.0

# While files settle, checks take at most one part of so many of the time: a large folder is not listed all the time for
# the sake of files that keep landing, nor is a small one for a file that somebody writes to for long.
OF_THE_TIME = 20
AT_MOST_EVERY = 1.0  # seconds


def seconds_to_check(interval: float, settle_in: float | None, took: float) -> float:
    """Return the seconds until the next check, so that settled files do not wait for a whole interval.

    Args:
        interval: seconds between two checks of a folder where nothing settles.
        settle_in: seconds until all settling files have settled, None where none is settling.
        took: seconds that the check took.
    """
    if settle_in is None:
        return interval
    return min(interval, max(settle_in, took * OF_THE_TIME, AT_MOST_EVERY))


class LandedFilesTrigger(BaseTrigger):
    """Fires when a run of the pipeline would have something to do, or when only a person can help.

    Args:
        pipeline: name of the pipeline.
        places: arguments of ``Settings.of``.
        tables: only these tables; none means all.
        every: seconds between two checks; while files settle it checks more often (see ``seconds_to_check``).
        bundle: where the definitions are, if a DAG bundle has them (see ``bundles.bundle_place``).
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
        self._definition = Reloaded(pipeline)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the arguments from which the triggerer rebuilds the trigger."""
        arguments = {"pipeline": self.pipeline, "places": self.places, "tables": self.tables, "every": self.every}
        if self.bundle:
            arguments |= {"bundle": self.bundle}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check until work waits, each time in a thread: listing a large folder takes seconds.

        An error of a store or the network is raised; it fails the task, which has retries.
        """
        before = ""
        with bundles.keep_bundle(self.bundle):
            while True:
                began = time.monotonic()
                try:
                    landed = await asyncio.to_thread(self._find, await connections.triggerer_variables())
                except UserError as error:
                    facts = {"error": error.for_people(), "facts": error.as_dict()}
                    yield TriggerEvent(facts)  # type: ignore[no-untyped-call]
                    return
                if landed.sentence != before:
                    self.log.info(escape_text(landed.sentence))
                    before = landed.sentence
                if landed.waiting is not None:
                    yield TriggerEvent({"found": landed.waiting})  # type: ignore[no-untyped-call]
                    return
                await asyncio.sleep(seconds_to_check(self.every, landed.settle_in, time.monotonic() - began))

    def _find(self, variables: dict[str, str]) -> FilesWaiting:
        with aws.override_variables(variables):
            return find_landed(self._definition.load(self._places.settings()), self.tables)


class FileArrivalTrigger(BaseEventTrigger):
    """Fires when files have landed that no event has reported, or when only a person can help; it never ends.

    It checks what the sensor checks, and remembers the answer: files that wait on are reported once. A restarted
    triggerer reports them again, which costs an idle run. What a killed run left behind is ignored, or each step of a
    run at work would start another.

    Args:
        pipeline: name of the pipeline.
        places: arguments of ``Settings.of``.
        every: seconds between two checks; while files settle it checks more often (see ``seconds_to_check``).
        queue: URL of a queue with the store's notifications. Then a check follows each message, or comes
            ``AT_LEAST_EVERY`` seconds after the last: a message may be lost, or never sent.
        bundle: where the definitions are, if a DAG bundle has them (see ``bundles.bundle_place``).
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
        self._definition = Reloaded(pipeline)
        self._poll_until = 0.0
        self._polls: ThreadPoolExecutor | None = None
        self._listening: tuple[Mapping[str, str], Queue] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the arguments from which the triggerer rebuilds the trigger; they are part of the DAG's version."""
        arguments = {"pipeline": self.pipeline, "places": self.places, "every": self.every, "queue": self.queue}
        if self.bundle:
            arguments |= {"bundle": self.bundle}
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Check for ever, each time in a thread: listing a large folder takes seconds.

        An outage of the store or the network is waited out: a failed trigger takes its asset with it.
        """
        try:
            async for event in self._events():
                yield event
        finally:
            if self._polls is not None:
                self._polls.shutdown(wait=False, cancel_futures=True)

    async def _events(self) -> AsyncIterator[TriggerEvent]:
        before: dict[str, Any] = {}
        while True:
            began, settle_in = time.monotonic(), None
            try:
                answer, settle_in = await asyncio.to_thread(self._find, await connections.triggerer_variables())
            except (UserError, DamagedTable) as error:
                answer = {"error": error.for_people()}
            except Exception:
                self.log.warning("the landing folder of %s could not be listed", self.pipeline, exc_info=True)
                answer = before
            # A table that no longer waits is no news: a run is taking in one after the other.
            if any(before.get(about) != state for about, state in answer.items()):
                yield TriggerEvent(answer)  # type: ignore[no-untyped-call]
            before = answer
            seconds = seconds_to_check(self.every, settle_in, time.monotonic() - began)
            await self._wait_for_check(seconds, settling=settle_in is not None)

    async def _wait_for_check(self, seconds: float, *, settling: bool) -> None:
        """Wait until the next check is due: for some seconds, or with a queue for a message where no files settle.

        Messages are deleted once received. The files they announced are polled for until they have settled; if this
        process ends meanwhile, the next one begins with a check.
        """
        time_now = time.monotonic()
        if self.queue is None or settling or time_now < self._poll_until:
            await asyncio.sleep(seconds)
            return
        while time.monotonic() < time_now + AT_LEAST_EVERY:
            try:
                if await self._poll_queue():
                    settled = await asyncio.to_thread(self._settle_seconds)
                    self._poll_until = time.monotonic() + settled + self.every
                    return
            except Exception:
                # Falls back to polling, as without a queue.
                self.log.warning("the notification queue of %s does not respond", self.pipeline, exc_info=True)
                await asyncio.sleep(self.every)
                return

    async def _poll_queue(self) -> bool:
        """Return whether the queue had messages.

        The poll has a thread of its own, which waits most of the time: the process has few threads for all of its
        triggers, and those are for checks.
        """
        variables = await connections.triggerer_variables()
        self._polls = self._polls or ThreadPoolExecutor(1, "sluicegate-queue")
        return await asyncio.get_running_loop().run_in_executor(self._polls, self._messages, variables)

    def _settle_seconds(self) -> float:
        return settle_seconds(self._definition.load(self._places.settings()))

    def _messages(self, variables: dict[str, str]) -> bool:
        """Delete all messages of the queue, so that one check is for many, and return whether it had any."""
        from sluicegate.airflow.sensors.sqs import Queue

        if self._listening is None or self._listening[0] != variables:
            self._listening = (variables, Queue(self.queue or "", variables))
        queue = self._listening[1]
        first = messages = queue.receive()
        while messages:
            queue.delete(messages)
            messages = queue.receive(0)
        return bool(first)

    def _find(self, variables: dict[str, str]) -> Arrived:
        with aws.override_variables(variables):
            return find_arrived(self._definition.load(self._places.settings()))
