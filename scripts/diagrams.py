"""Draws docs/pictures/layers.svg and way-of-a-file.svg for docs/architecture.md: ``make docs``.

The packages, their order and what each is for are read from the contract in pyproject.toml and from the docstrings of
the packages, so the first picture cannot show a package that is not there. The second is the table ``STEPS``. The same
source gives the same bytes; ``--check`` writes nothing and exits 1 if a file is not as it would be drawn.
"""

from __future__ import annotations

import ast
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from scripts import made_files

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "sluicegate"
PICTURES = ROOT / "docs" / "pictures"
LAYERS, STEPS_OF_A_FILE = PICTURES / "layers.svg", PICTURES / "way-of-a-file.svg"

# Names by which notebooks import two things; they are no floor of the house.
DOORS = frozenset({"session", "simulators"})

# What each group of floors is for, by the package that is its first one from above.
GROUPS = {
    "cli": "what people use",
    "jobs": "what starts and runs jobs",
    "bronze": "the layers, and what looks at tables: none of the four imports another",
    "frames": "what the layers share",
    "schema": "columns, tables, files, definitions and queries",
    "console": "what all may use",
}

# Text in either theme; a box's colour says which group it is of. The page has a ground of its own: a site may be dark
# where the system is light, and the picture only knows of the system.
STYLE = """
.page { fill: #ffffff; }
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
.name { font-weight: 600; }
.code { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.small { font-size: 12px; fill: #59636e; }
.box { fill: #f6f8fa; stroke: #818b98; }
.table { fill: #ddf4ff; stroke: #0969da; }
.outside { fill: #fff8c5; stroke: #9a6700; }
.line { fill: none; stroke: #818b98; stroke-width: 1.5; }
.head { fill: #818b98; }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; }
  text { fill: #e6edf3; }
  .small { fill: #9198a1; }
  .box { fill: #151b23; stroke: #656c76; }
  .table { fill: #121d2f; stroke: #4493f8; }
  .outside { fill: #272115; stroke: #d29922; }
  .line { stroke: #656c76; }
  .head { fill: #656c76; }
}
"""


@dataclass(frozen=True)
class Step:
    """A step of a file's way: whose code takes it, what that does, and what it leaves in the lake.

    Attributes:
        code: the function or class, as ``module.name`` below ``sluicegate``; empty for what is outside.
        does: what it does.
        leaves: tables, or what people see.
    """

    code: str
    does: str
    leaves: tuple[str, ...] = ()


STEPS = (
    Step("", "A file lands in the landing folder."),
    Step("monitor.plan.pending", "Sees what waits, by ledgers and offsets. Without work no JVM is started."),
    Step(
        "launch.submit.submit_all",
        "Starts one Spark, where the layers run one after another. jobs.layer_job.Job runs the tables of each.",
    ),
    Step("landing.discovery.discover", "Lists the landing folder, and leaves out what the ledger has."),
    Step(
        "landing.intake.enter",
        "Enters new files by compare-and-set, a commit for each ledger batch.",
        ("_ledger/{table}",),
    ),
    Step(
        "flow.progress.progress", "For each table of each layer: reads the offset, and what the source has had since."
    ),
    Step("flow.loop.run", "Streams these changes as one batch, whose rows flow.streaming.delivery.Delivery proves."),
    Step(
        "bronze.ingest.apply",
        "Reads the files of each ledger batch into one commit. One that cannot be read fails alone.",
        ("bronze/{table}",),
    ),
    Step(
        "landing.file_status.copy", "Keeps what bronze's commits say became of each file.", ("_ledger/{table}_outcome",)
    ),
    Step(
        "silver.process.apply",
        "Evaluates each record (silver.evaluate.RowEvaluator), and counts them (silver.reconcile.Reconciliation).",
        ("silver/{table}_quarantine", "_state/{table}_set_aside", "silver/{table}"),
    ),
    Step(
        "gold.refresh.apply",
        "Applies what changed: by aggregate state, by affected groups, or whole.",
        ("_state/{table}_groups", "gold/{table}"),
    ),
    Step("monitor.event_log.copy_events", "Copies what the commits of all tables say of themselves.", ("_events",)),
    Step(
        "flow.report.end_with_report",
        "Sends the report of each layer on the job's channel.",
        ("SLUICEGATE_REPORT {…}",),
    ),
    Step("launch.pipeline.run", "Collects reports, and fails if a table is behind (monitor.backlog.overdue_tables)."),
    Step(
        "api.run",
        "Gives them to the command line or a notebook. In Airflow the operator reads the channel itself.",
        ("what a run says",),
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the pictures or, with ``--check``, compares them; returns the exit code."""
    check = made_files.is_check("python -m scripts.diagrams", main.__doc__, argv)
    stale = {f"docs/pictures/{file.name}": (file, picture) for file, picture in outdated_pictures().items()}
    return made_files.write_stale(stale, "the source gives", check=check)


def outdated_pictures() -> dict[Path, str]:
    """The pictures that are not as the source gives them, each as it would be."""
    drawn = {LAYERS: layers(), STEPS_OF_A_FILE: steps_picture()}
    return made_files.outdated_files(drawn)


def floors() -> list[list[str]]:
    """The packages and modules of the house, floor by floor from above, as the contract of imports has them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    order: list[str] = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    split = [[name.strip() for name in floor.replace("|", ":").split(":")] for floor in order]
    return [floor for floor in split if not DOORS.issuperset(floor)]


def purpose(name: str) -> str:
    """What a package or module says that it is: the first sentence of its docstring."""
    file = PACKAGE / name / "__init__.py"
    said = ast.get_docstring(ast.parse((file if file.is_file() else PACKAGE / f"{name}.py").read_text())) or ""
    return said.split("\n\n")[0].replace("\n", " ").replace("``", "")


# --- the house -------------------------------------------------------------------------------------------------------

WIDTH, EDGE, LINE = 920, 16, 17


def layers() -> str:
    """The picture of the packages: each imports only those below it."""
    parts: list[str] = []
    y = EDGE
    for floor in floors():
        group = next((GROUPS[name] for name in floor if name in GROUPS), "")
        if group:
            y += 10
            parts.append(_text(EDGE, y + 13, group, "small"))
            parts.append(f'<path class="line" d="M{EDGE} {y + 20}H{WIDTH - EDGE}"/>')
            y += 30
        for name in floor if len(floor) <= len("four") else [", ".join(floor)]:
            y = _floor(parts, name, y)
    title = "The packages of Sluicegate, each of which imports only those below it"
    return _picture(title, parts, y + EDGE)


def _floor(parts: list[str], name: str, y: int) -> int:
    """Draws a package, or a list of modules; returns where the next one begins."""
    if ", " in name:
        lines = textwrap.wrap(name, 116)
        parts += [_text(EDGE + 12, y + 14 + LINE * n, line, "code") for n, line in enumerate(lines)]
        return y + LINE * len(lines) + 8
    said = textwrap.wrap(purpose(name), 100)
    height = LINE * len(said) + 10
    parts.append(_box(EDGE, y, 130, height, "box"))
    parts.append(_text(EDGE + 12, y + height // 2 + 5, name, "name"))
    parts += [_text(EDGE + 146, y + 18 + LINE * n, line) for n, line in enumerate(said)]
    return y + height + 6


# --- the way of a file -----------------------------------------------------------------------------------------------

LEFT, RIGHT = 560, 280


def steps_picture() -> str:
    """The picture of a landed file's way to a gold row, and back to what a run prints."""
    parts: list[str] = []
    y = EDGE
    for number, step in enumerate(STEPS):
        said = textwrap.wrap(step.does, 78)
        height = max(LINE * (len(said) + bool(step.code)), 23 * len(step.leaves) - 6) + 16
        if number:
            parts.append(_arrow(EDGE + LEFT // 2, y - 18, EDGE + LEFT // 2, y))
        parts.append(_box(EDGE, y, LEFT, height, "box" if step.code else "outside"))
        if step.code:
            parts.append(_text(EDGE + 12, y + 20, step.code, "code name"))
        below = y + 20 + LINE * bool(step.code)
        parts += [_text(EDGE + 12, below + LINE * n, line) for n, line in enumerate(said)]
        parts += _output_boxes(step, y + height // 2)
        y += height + 18
    return _picture("The way of a landed file to a gold row, and back to what a run prints", parts, y - 18 + EDGE)


def _output_boxes(step: Step, middle: int) -> Iterator[str]:
    """What a step leaves, beside it."""
    x, top = WIDTH - EDGE - RIGHT, middle - (23 * len(step.leaves) - 3) // 2
    if step.leaves:
        yield _arrow(EDGE + LEFT, middle, x, middle)
    for number, name in enumerate(step.leaves):
        kind = "table" if "{table}" in name or name.startswith("_") else "outside"
        yield _box(x, top + 23 * number, RIGHT, 20, kind)
        yield _text(x + 10, top + 23 * number + 14, name, "code")


# --- SVG -------------------------------------------------------------------------------------------------------------


def _picture(title: str, parts: Iterable[str], height: int) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n'
        f'<rect class="page" width="{WIDTH}" height="{height}"/>\n'
    )
    return head + "".join(f"{part}\n" for part in parts) + "</svg>\n"


def _box(x: int, y: int, width: int, height: int, kind: str) -> str:
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="5"/>'


def _text(x: int, y: int, text: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x}" y="{y}">{escape(text)}</text>'


def _arrow(x: int, y: int, to_x: int, to_y: int) -> str:
    """A line with a head, straight down or to the right."""
    down = x == to_x
    end = f"V{to_y - 6}" if down else f"H{to_x - 6}"
    wings = f"M{to_x - 5} {to_y - 8}h10l-5 8z" if down else f"M{to_x - 8} {to_y - 5}v10l8 -5z"
    return f'<path class="line" d="M{x} {y}{end}"/><path class="head" d="{wings}"/>'


if __name__ == "__main__":
    sys.exit(main())
