"""``sluicegate simulate``: land sample files."""

from __future__ import annotations

from typing import Annotated

import typer

from sluicegate.cli.options import pass_settings
from sluicegate.console import say
from sluicegate.settings import Settings


@pass_settings("landing")
def simulate(
    pipeline: Annotated[
        str, typer.Argument(metavar="PIPELINE", help="Pipeline of this project that the files are for.")
    ],
    count: Annotated[int, typer.Option("--files", min=1, help="How many files of each kind to land.")] = 1,
    records: Annotated[int, typer.Option("--records", min=1, help="Records in each file.")] = 1000,
    continuous: Annotated[bool, typer.Option("--continuous", help="Keep running until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between two files.")] = 5.0,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed: the same seed creates the same files.")] = None,
    drift: Annotated[
        bool, typer.Option("--drift", help="Add a field to records, and write a number as a string.")
    ] = False,
    duplicates: Annotated[float, typer.Option("--duplicates", min=0, max=1, help="Share of duplicate records.")] = 0.0,
    bad: Annotated[
        float, typer.Option("--bad", min=0, max=1, help="Share of records with a missing number or cut off.")
    ] = 0.0,
    late: Annotated[
        float, typer.Option("--late", min=0, max=1, help="Share of records that are late or refer to an unknown key.")
    ] = 0.0,
    begin: Annotated[
        str | None,
        typer.Option(
            "--begin", help="Time of the first record in an empty landing folder, for example 2020-01-17 (UTC)."
        ),
    ] = None,
    *,
    settings: Settings,
) -> None:
    """Land sample files for one of the pipelines of this project, with faults on request.

    Example: sluicegate simulate heart_rate --files 2
    """
    from sluicegate.tools import simulators

    since = None
    if begin is not None:
        from sluicegate.landing.chosen.copy import parse_moment

        since = parse_moment(begin)
    faults = simulators.Faults(drift, duplicates, bad, late)
    simulator = simulators.Simulator(pipeline, settings.landing, records, seed, faults, since)
    if continuous:
        landed = simulator.land_continuously(every)
    else:
        landed = simulator.land(count)
    try:
        for file in landed:
            wrong = ", ".join(f"{number:,} {name}" for name, number in file.faults.items())
            say(f"landed {file.path}: {file.records:,} records{wrong and f'; {wrong}'}")
    except KeyboardInterrupt:
        say("stopped")  # Ctrl-C is how a continuous simulation ends
