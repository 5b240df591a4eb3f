"""Draws the chart of a page of docs/gallery from the gold tables of a lake: ``python -m scripts.gallery NAME``.

A page shows a pipeline: its data, graph and tables, three questions with their answers, and a chart. What the chart
shows is on the page, too: the query in its last block of SQL gives the heading of a block of bars, the name of a bar
and its value, and the words for the picture are its title. So there is nothing to be said of a chart here.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts import bars
from sluicegate.definition import load
from sluicegate.errors import SluicegateError
from sluicegate.settings import Settings
from sluicegate.tools.sqlshell import shell

ROOT = Path(__file__).resolve().parent.parent
GALLERY = Path("docs") / "gallery"
WIDTH, LETTER, LEAST = 520, 7, 60  # pixels: of the picture, of a letter, and of the names of bars at least


def main(argv: Sequence[str] | None = None) -> int:
    """Draws the chart of a pipeline into docs/gallery; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scripts.gallery", description=main.__doc__)
    parser.add_argument("pipeline", help="a pipeline with a page in docs/gallery")
    parser.add_argument("--lake", help="lake with its tables (default: SLUICEGATE_LAKE or lake)")
    arguments = parser.parse_args(argv)
    file = GALLERY / f"{arguments.pipeline}.svg"
    try:
        drawn = chart(arguments.pipeline, Settings.of(lake=arguments.lake, pipelines=ROOT / "pipelines"))
    except SluicegateError as error:
        print(error.for_people(), file=sys.stderr)
        return error.exit_code
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(drawn)
    print(f"wrote {file}")
    return 0


def chart(name: str, settings: Settings) -> str:
    """The chart of a pipeline as SVG, of what its gold tables have now.

    Raises:
        SluicegateError: a table is missing, or the query is wrong.
    """
    title, query = page_chart(name, (ROOT / GALLERY / f"{name}.md").read_text())
    rows = shell.query(query, {name: load(name, settings)}, settings)
    return picture(title, rows.column_names, rows.to_pylist())


def page_chart(name: str, page: str) -> tuple[str, str]:
    """Title and query of the chart that a page shows."""
    [title] = re.findall(rf"!\[([^]]+)\]\({name}\.svg\)", page)
    *_, query = re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return title, query


def picture(title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Bars of rows of three columns: heading of a block, name of a bar, value. All blocks have one scale."""
    heading, name, value = columns
    left = max([LEAST, *(round(LETTER * len(str(row[name]))) + 20 for row in rows)])

    def blocks() -> Iterator[tuple[str, list[bars.Bar]]]:
        for of, its in itertools.groupby(rows, lambda row: str(row[heading])):
            yield of, [bars.Bar(str(row[name]), float(row[value]), _text(row[value])) for row in its]

    longest = max((float(row[value]) for row in rows), default=0.0)
    return bars.picture(title, blocks(), WIDTH, left, longest)


def _text(value: Any) -> str:
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


if __name__ == "__main__":
    sys.exit(main())
