"""Lands TPC-H or TPC-DI, or measures both and writes docs/tpc.md: ``python -m bench.tpc``.

``python -m bench.tpc --land tpch`` only lands the first rows, with ``--changes N`` those of the landing N, so that the
definitions can be run by hand: ``sluicegate run tpch --pipelines bench/tpc/pipelines``.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.__main__ import ROOT, commit, machine
from bench.tpc import landing, page
from bench.tpc.measure import measure_tables
from bench.tpc.results import Results
from bench.tpc.world import FORMS, World, generator

FIGURES = "bench/tpc.json"
SCALES = {"tpch": 0.05, "tpcdi": 0.2}
SILVER = ("dim_date", "dim_time", "industry", "status_type", "trade_type", "tax_rate", "dim_broker")
"""Tables of TPC-DI's warehouse that are silver."""


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.tpc", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=SCALES, help="only this one; the other keeps its figures")
    parser.add_argument("--scale", type=float, help="another scale")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="landings of changes that are measured (default: 3)")
    parser.add_argument("--tables", default="", metavar="NAMES", help="with --only: these gold tables, as a,b")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", help="folder of the page (default: docs)")
    parser.add_argument("--write", action="store_true", help="measure nothing: make the page again from the figures")
    parser.add_argument("--scratch", type=Path, help="folder for scratch files (default: the system's)")
    parser.add_argument(
        "--land", choices=SCALES, metavar="NAME", help="land rows of tpch or tpcdi, and measure nothing"
    )
    parser.add_argument(
        "--changes", type=int, default=0, metavar="N", help="with --land: those of landing N of changes"
    )
    parser.add_argument("--to", type=Path, default=Path("landing"), help="with --land: the landing folder")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Does what the command line says."""
    given = parse_arguments(argv)
    if given.land:
        made = generator(given.land, given.scale or SCALES[given.land], given.seed)
        rows = made.changes(given.changes) if given.changes else made.first_landing()
        files = landing.land(given.to, rows, FORMS[given.land], f"{given.changes:03d}")
        print(f"{sum(map(len, rows.values())):,} rows in {len(files)} files below {given.to}")
        return 0
    if not given.write:
        _measure(given)
    page.write(Results.read(given.out / FIGURES), given.out)
    return 0


def _measure(given: argparse.Namespace) -> None:
    from sluicegate.spark import session

    spark = session.session_inside("tpc")
    for name in (given.only,) if given.only else SCALES:
        folder = Path(tempfile.mkdtemp(prefix="sluicegate-tpc-", dir=given.scratch))
        scale, only = given.scale or SCALES[name], tuple(filter(None, given.tables.split(",")))
        try:
            world = World(folder, name, scale, given.seed)
            silver = SILVER if name == "tpcdi" and not only else ()
            for found in measure_tables(spark, world, silver, given.rounds, only):
                results = Results.read(given.out / FIGURES)  # only now: another run may have put down others
                results.put(
                    name if scale == SCALES[name] else f"{name} {scale:g}",
                    scale,
                    found,
                    machine() | {"commit": commit()},
                )
                results.write(given.out / FIGURES)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    raise SystemExit(main())
