"""Measure how dense and how well named the package is, and fail above the limits: ``python -m scripts.readability``.

Decisions are McCabe's complexity with expressions counted as well: conditional expressions, ``and``, ``or`` and
comprehensions. A branch that moves into an expression therefore changes nothing. A name is empty if it says nothing of
the value that it is bound to. Circles are those of all imports: those in functions and those for types count, too.
Limits are today's figures: a change may lower them, and does not raise them.
"""

from __future__ import annotations

import argparse
import ast
import heapq
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from scripts import import_graph

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "sluicegate"

COMPLEX = 15
EMPTY_WORDS = (
    "found one made said there now what wanted why given held ours own its how others rest seen left known every some"
    " told here then at got done gone came kept asked first_ last_ things thing stuff obj tmp val"
)
EMPTY_NAMES = frozenset(EMPTY_WORDS.split())

DECISIONS = "decisions per 100 lines of functions"
TERNARIES = "conditional expressions per 1,000 lines of code"
EMPTY = "empty names, % of bound names"
COMPLEX_FUNCTIONS = f"functions with more than {COMPLEX} decisions"
CIRCLES = "circles of modules that import one another"
FOLDER = "modules in the largest folder"
LINES = "lines of code"
DOCUMENT_WORDS = "words in the documents"

LIMITS = {
    DECISIONS: 41.0,
    TERNARIES: 11.0,
    EMPTY: 1.0,
    COMPLEX_FUNCTIONS: 0.0,
    CIRCLES: 0.0,
    FOLDER: 20.0,
    LINES: 60_000.0,
    DOCUMENT_WORDS: 75_000.0,
}
AIMS = LIMITS | {DECISIONS: 28.0, TERNARIES: 15.0, DOCUMENT_WORDS: 75_000.0}


@dataclass(frozen=True, order=True)
class Function:
    """A function, its decisions and its lines; the order is that of decisions."""

    decisions: int
    lines: int
    place: str


@dataclass
class Measurement:
    """What was counted in the modules of a package."""

    functions: list[Function] = field(default_factory=list)
    names: Counter[str] = field(default_factory=Counter)
    ternaries: int = 0
    lines: int = 0

    def add(self, path: Path, text: str) -> None:
        """Count one module."""
        tree = ast.parse(text)
        self.lines += len(code_lines(text, tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.IfExp):
                self.ternaries += 1
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions.append(measure_function(node, path))
        self.names.update(bound_names(tree))

    def figures(self) -> dict[str, float]:
        """Figures of the table, rounded as they are printed."""
        decisions = sum(function.decisions for function in self.functions)
        lines = sum(function.lines for function in self.functions)
        empty = sum(count for name, count in self.names.items() if name in EMPTY_NAMES)
        return {
            DECISIONS: round(100 * decisions / lines, 1),
            TERNARIES: round(1000 * self.ternaries / self.lines, 1),
            EMPTY: round(100 * empty / self.names.total(), 1),
            COMPLEX_FUNCTIONS: float(sum(function.decisions > COMPLEX for function in self.functions)),
            LINES: float(self.lines),
        }


def decisions(function: ast.AST) -> int:
    """Count the paths that a function's statements and expressions add to one."""
    paths = 1
    for node in ast.walk(function):
        match node:
            case ast.If() | ast.IfExp() | ast.For() | ast.AsyncFor() | ast.While() | ast.ExceptHandler() | ast.Assert():
                paths += 1
            case ast.match_case():
                paths += 1
            case ast.BoolOp(values=values):
                paths += len(values) - 1
            case ast.comprehension(ifs=conditions):
                paths += 1 + len(conditions)
    return paths


def measure_function(function: ast.FunctionDef | ast.AsyncFunctionDef, path: Path) -> Function:
    """Measure a function; its lines are those of its ``def`` to its end, docstring included."""
    last_line = function.end_lineno or function.lineno
    return Function(decisions(function), last_line - function.lineno + 1, f"{path}:{function.lineno} {function.name}")


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield each name that is assigned, and each parameter but ``self`` and ``cls``."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.arg(arg=name) if name not in ("self", "cls"):
                yield name


def code_lines(text: str, tree: ast.Module) -> list[str]:
    """Select the lines of a module without blank lines, docstrings and comments that have a line of their own."""
    documented: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            documented.update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return [
        line for number, line in lines if number not in documented and line.strip() and not line.strip().startswith("#")
    ]


def words(pages: Iterable[Path]) -> int:
    """Count the words of documents, without the bars of tables."""
    return sum(word.strip("|") != "" for page in pages for word in page.read_text().split())


def documents(root: Path) -> list[Path]:
    """List the project's documents: the pages of ``docs`` and those beside the README."""
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")])


def measurement(folder: Path) -> Measurement:
    """Measure all modules below a folder."""
    package = Measurement()
    for path in sorted(folder.rglob("*.py")):
        package.add(path.relative_to(folder.parent), path.read_text())
    return package


def main(arguments: list[str] | None = None) -> int:
    """Print the table, and return 1 if a figure is above its limit."""
    parser = argparse.ArgumentParser(prog="python -m scripts.readability", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="list the N functions with most decisions")
    options = parser.parse_args(arguments)
    package = measurement(PACKAGE)
    circles = import_graph.circles(import_graph.imports(PACKAGE))
    folders = import_graph.modules_by_folder(PACKAGE)
    figures = package.figures() | {
        CIRCLES: float(len(circles)),
        FOLDER: float(max(folders.values())),
        DOCUMENT_WORDS: float(words(documents(ROOT))),
    }
    print(f"{'':48}{'now':>9}{'limit':>9}{'aim':>9}")
    for name, figure in figures.items():
        print(f"{name:48}{figure:>9,g}{LIMITS[name]:>9,g}{AIMS[name]:>9,g}")
    for function in heapq.nlargest(options.worst, package.functions):
        print(f"{function.decisions:4} decisions in {function.lines:3} lines  {function.place}")
    for circle in circles:
        print(f"import one another: {', '.join(circle)}")
    for folder, modules in folders.items():
        if modules > LIMITS[FOLDER]:
            print(f"{modules} modules: {folder}")
    above = [name for name, figure in figures.items() if figure > LIMITS[name]]
    for name in above:
        print(f"above its limit: {name}", file=sys.stderr)
    return int(bool(above))


if __name__ == "__main__":
    sys.exit(main())
