"""Records ``make try`` into docs/img/try.svg, which shows it line by line: ``python -m scripts.recording``.

The picture is a terminal in which what a real run has printed appears as it did then, with shorter pauses. It moves by
CSS alone, needs no program to play it, and is one file that README and site show as they show any picture. Where
nothing may move, and where no CSS is run, its end is seen. A test holds its text to what a run prints.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, unescape

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "img" / "try.svg"
TITLE = "A terminal in which make try lands sample files, runs the pipeline and shows its gold tables"
COMMAND = "make try"

COLUMNS, ROWS = 128, 32  # letters in a line, lines on the screen
LINE, LETTER, EDGE = 17, 7.23, 14  # pixels
LONGEST, SHORTEST = 1.2, 0.06  # seconds between two lines; Spark takes longer to start
HOLD = 9.0  # seconds for which the end stands before it begins again

SECONDS = re.compile(r"\d+(?:\.\d+)? s\b")

STYLE = """
.page { fill: #0d1117; stroke: #30363d; }
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #e6edf3;
  white-space: pre; }
.typed { fill: #7ee787; font-weight: 600; }
.curtain { fill: #0d1117; }
.dot { fill: #484f58; }
@media (prefers-reduced-motion: reduce) { .screen, .curtain { animation: none !important; } }
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs ``make try`` in an empty folder and draws docs/img/try.svg; returns the exit code."""
    argparse.ArgumentParser(prog="python -m scripts.recording", description=main.__doc__).parse_args(argv)
    PICTURE.write_text(picture(record_run()))
    print(f"wrote {PICTURE.relative_to(ROOT)}")
    return 0


def record_run() -> list[tuple[float, str]]:
    """What a run prints, each line with the seconds since the one before it.

    Raises:
        CalledProcessError: the run failed.
    """
    own = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW", "SLUICEGATE"))}
    lines: list[tuple[float, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        # It names the commands as in a checkout: by their path from its folder.
        environment = Path(os.path.realpath(folder)) / ".venv"
        environment.symlink_to(ROOT / ".venv")
        command = [str(environment / "bin" / "python"), "-m", "sluicegate.tools.demo", "--without-airflow"]
        last = time.monotonic()
        with subprocess.Popen(
            command, cwd=folder, env=own | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
        ) as run:
            for line in run.stdout or ():
                now = time.monotonic()
                lines.append((now - last, line.rstrip()))
                last = now
        if run.returncode:
            raise subprocess.CalledProcessError(run.returncode, command)
    return lines


def text_of(drawn: str) -> list[str]:
    """The lines that a picture shows, the command first."""
    return [unescape(line) for line in re.findall(r"<text[^>]*>([^<]*)</text>", drawn)]


def comparable_lines(lines: Iterable[str]) -> list[str]:
    """Lines without the seconds that something took, and in no order: tables of a layer are filled side by side."""
    return sorted(SECONDS.sub("… s", line) for line in lines if line.strip())


def wrap_line(line: str) -> Iterator[str]:
    """The line as a terminal breaks it."""
    yield line[:COLUMNS]
    for at in range(COLUMNS, len(line), COLUMNS):
        yield line[at : at + COLUMNS]


def picture(lines: Iterable[tuple[float, str]]) -> str:
    """The picture of a run, whose lines come each some seconds after the one before."""
    shown: list[str] = [f"$ {COMMAND}"]
    at: list[float] = [0.0]
    for pause, line in lines:
        for number, part in enumerate(wrap_line(line)):
            shown.append(part)
            at.append(at[-1] + (0.0 if number else min(max(pause, SHORTEST), LONGEST)))
    length = at[-1] + HOLD
    height = 2 * EDGE + LINE * (ROWS + 1)
    width = round(2 * EDGE + LETTER * COLUMNS)
    clip = f'<clipPath id="screen"><rect x="0" y="{EDGE + LINE}" width="{width}" height="{LINE * ROWS}"/></clipPath>'
    dots = "".join(f'<circle class="dot" cx="{EDGE + 6 + 18 * n}" cy="{EDGE + 4}" r="5"/>' for n in range(3))
    texts = "".join(_line(number, line) for number, line in enumerate(shown))
    curtain = (
        f'<rect class="curtain" x="1" y="{EDGE + LINE}" width="{width - 2}" height="{LINE * (len(shown) + ROWS)}"/>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(TITLE)}">\n<title>{escape(TITLE)}</title>\n'
        f"<style>{STYLE}{_motion(at, length)}</style>\n{clip}\n"
        f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>\n{dots}\n'
        f'<g clip-path="url(#screen)"><g class="screen">\n{texts}{curtain}\n</g></g>\n</svg>\n'
    )


def _line(number: int, line: str) -> str:
    kind = "" if number else ' class="typed"'
    return f'<text{kind} x="{EDGE}" y="{EDGE + LINE * (number + 1) + 13}" xml:space="preserve">{escape(line)}</text>\n'


def _motion(at: Sequence[float], length: float) -> str:
    """The curtain goes down by a line when one appears, and the screen up when it is full."""

    def keyframes(name: str, down: Sequence[int]) -> str:
        steps = "".join(
            f"{100 * moment / length:.3f}% {{ transform: translateY({LINE * by}px); }} "
            for moment, by, after in zip(at, down, [*at[1:], length], strict=True)
            if after > moment  # of lines that appear at once, the last one
        )
        return (
            f"@keyframes {name} {{ {steps}}}\n"
            f".{name} {{ transform: translateY({LINE * down[-1]}px); "
            f"animation: {name} {length:.2f}s step-end infinite; }}\n"
        )

    lines = range(1, len(at) + 1)
    return keyframes("curtain", [*lines]) + keyframes("screen", [min(0, ROWS - number) for number in lines])


if __name__ == "__main__":
    sys.exit(main())
