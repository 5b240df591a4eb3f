"""``sluicegate stop``."""

from __future__ import annotations

from sluicegate.cli.options import JsonOption, pass_settings, show_json
from sluicegate.console import say
from sluicegate.settings import Settings


@pass_settings("lake")
def stop(*, settings: Settings, as_json: JsonOption = False) -> None:
    """End the Spark that the last run in this lake left ready for the next one. No JVM.

    It ends by itself after a few minutes. A run that uses it continues.

    Example: sluicegate stop
    """
    from sluicegate.launch import warm_job

    outcome = warm_job.stop(settings.lake)
    if as_json:
        show_json({"outcome": outcome})
        return
    say(f"{outcome}{_EXPLAINED[outcome]}")


_EXPLAINED = {
    "stopped": ": Spark has ended, and its memory is free",
    "busy": ": it is in use by a run and was not stopped; press Ctrl-C in the run to end both",
    "none": ": no Spark is ready for this lake",
}
