"""Start a continuous run: submit the job, and pass Ctrl-C and SIGTERM on as a request to stop."""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from sluicegate import processes
from sluicegate.errors import UserError
from sluicegate.flow.report import RunReport
from sluicegate.lake import layout
from sluicegate.launch.run_mode import demand_layer
from sluicegate.monitor import streams
from sluicegate.settings import Settings
from sluicegate.times import time_span

if TYPE_CHECKING:
    from sluicegate.definition import Pipeline


SHORTEST = 0.1


def interval(text: str) -> float:
    """Return the interval of a continuous run in seconds.

    Raises:
        UserError: the text is not a duration, or shorter than ``SHORTEST``.
    """
    try:
        seconds = time_span(text).total_seconds()
    except ValueError:
        hint = "for example 4s, 30 seconds or 1 hour 30 minutes"
        raise UserError(f"--every: {text!r} is not a duration", hint=hint) from None
    if seconds < SHORTEST:
        raise UserError(f"--every {text} is too short", hint=f"the minimum is {SHORTEST:g} s")
    return seconds


def next_tick(moment: float, period: float) -> float:
    """Return the first tick after a moment; both in seconds since 1970."""
    return moment // period * period + period


# --- the command -----------------------------------------------------------------------------------------------------


def start(
    pipeline: Pipeline,
    settings: Settings,
    layer: str | None,
    every: str,
    tell: Callable[[str], None],
    take: Callable[[str], None],
) -> RunReport:
    """Submit the job and wait for its end. Ctrl-C and SIGTERM let it end its batch; a second one kills it.

    Args:
        pipeline: the definition.
        settings: places of pipelines, landing and lake.
        layer: only this layer; None for all.
        every: the interval.
        tell: receives each line for people.
        take: receives the message of each batch (see ``flow.report.BATCH``).

    Raises:
        PipelineMissing: the layer is unknown.
        UserError: the interval is not a duration, or too short.
        SluicegateError: the error that ended the job.
    """
    from sluicegate.launch.submit import submit

    interval(every)
    demand_layer(layer)
    lake, identity = layout.Lake(settings.lake, pipeline.name), streams.new_id()
    signals: list[int] = []

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if signals:
            raise KeyboardInterrupt
        signals.append(number)
        streams.ask_to_stop(lake, identity)
        tell("stopping after the current batch; press Ctrl-C again to stop at once, without loss")

    extra = ["--every", every, "--id", identity, *(["--layer", layer] if layer else [])]
    facts = {"run_id": f"continuous {identity}"}
    try:
        with processes.handle_signals((signal.SIGINT, signal.SIGTERM), on_signal):
            return submit("continuous", pipeline.name, settings, facts, tell, extra, take)
    finally:
        with suppress(OSError):  # a killed job could not do it
            streams.forget(lake, identity)
