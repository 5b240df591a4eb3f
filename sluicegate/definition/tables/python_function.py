"""Python transform of a definition: found and checked by its syntax, without running it.

Definitions are read every few seconds by processes that must not run users' code, such as Airflow's DAG processor. So
only the file's text is analysed here; the job runs it.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluicegate.definition.fields import suggest_name, suggest_or_list

# Positional arguments of a silver transform; its parameters may have any names.
PARAMETERS = ("batch", "tables")

# Positional arguments of a function that makes a gold table.
GOLD_PARAMETERS = ("tables",)

_REFERENCE = re.compile(r"(?P<file>.+\.py):(?P<function>[^\W\d]\w*)")


class NoTransform(Exception):
    """Raised for a reference without a usable function.

    Args:
        code: stable code of the kind of mistake.
        message: one sentence that says what is wrong.
        hint: what to write instead (may be empty).
        file: the Python file, if the mistake is in it.
        line: its line there, counted from 1.
    """

    def __init__(
        self, code: str, message: str, hint: str = "", *, file: Path | None = None, line: int | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.file, self.line = code, message, hint, file, line


@dataclass(frozen=True)
class PythonTransform:
    """A function in a file of the pipeline's folder.

    Attributes:
        file: path of the file.
        function: name of the function, which stands at the top level of the file.
        line: line that its definition begins on, counted from 1.
        source: the file's bytes.
    """

    file: Path
    function: str
    line: int
    source: bytes

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the whole file, which may affect the function in any part; line ends do not matter."""
        return hashlib.sha256(self.source.replace(b"\r\n", b"\n")).hexdigest()

    @classmethod
    def find(cls, folder: Path, reference: str, parameters: Sequence[str] = PARAMETERS) -> PythonTransform:
        """Find the function of a reference ``file.py:function``.

        Args:
            folder: the pipeline's folder, which must contain the file.
            reference: the file's path below it, a colon, and the name of the function.
            parameters: the positional arguments of its calls.

        Raises:
            NoTransform: it names no such function.
        """
        parts = _REFERENCE.fullmatch(reference)
        if parts is None:
            hint = "write FILE:FUNCTION, with a file of the pipeline's folder, for example transforms.py:enrich"
            raise NoTransform("python-file", f"{reference} does not name a function in a Python file", hint)
        file = _find_file(folder, parts["file"])
        source = _read(file, parts["file"])
        function = _find_function(_parse_module(source, file), parts["function"], file, parameters)
        return cls(file, parts["function"], function.lineno, source)


def _find_file(folder: Path, name: str) -> Path:
    """Return the path of a file in the folder; refuses paths and links that lead out of it."""
    file = folder / name
    outside = Path(name).is_absolute() or ".." in Path(name).parts or "\\" in name
    if outside or not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)):
        hint = "copy it into the folder, so that it is versioned and reviewed with the definition"
        raise NoTransform("python-file", f"{name} is outside the pipeline's folder", hint)
    if not file.is_file():
        files = [str(path.relative_to(folder)) for path in folder.rglob("*.py")]
        raise NoTransform("python-file", f"file {name} not found in the pipeline's folder", suggest_name(name, files))
    return file


def _read(file: Path, name: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise NoTransform("unreadable", f"{name} cannot be read: {error}") from None


def _parse_module(source: bytes, file: Path) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of an invalid escape: running the file shows them
            return ast.parse(source, str(file))
    except SyntaxError as error:
        message = f"invalid Python: {error.msg}"
        raise NoTransform("python-syntax", message, file=file, line=error.lineno or 1) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise NoTransform("python-syntax", f"invalid Python: {error}", file=file, line=1) from None


def _find_function(module: ast.Module, name: str, file: Path, parameters: Sequence[str]) -> ast.FunctionDef:
    """Return the last function of that name, which is the one bound after the file has run."""
    functions = [node for node in module.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    function = next((node for node in reversed(functions) if node.name == name), None)
    if function is None:
        names = list(dict.fromkeys(node.name for node in functions))
        hint = suggest_or_list(name, names, "its functions:", _signature(name, parameters))
        raise NoTransform("python-function", f"{file.name} has no function {name} at its top level", hint)
    if isinstance(function, ast.FunctionDef) and _can_take(function.args, len(parameters)):
        return function
    message = f"{name} must accept {' and '.join(parameters)} as positional arguments"
    if isinstance(function, ast.AsyncFunctionDef):
        message = f"{name} is async, but a transform must return a DataFrame"
    raise NoTransform("python-function", message, _signature(name, parameters), file=file, line=function.lineno)


def _can_take(arguments: ast.arguments, count: int) -> bool:
    """Return whether the function can be called with ``count`` positional arguments."""
    positional = len(arguments.posonlyargs) + len(arguments.args)
    needed = positional - len(arguments.defaults)
    keywords_needed = any(default is None for default in arguments.kw_defaults)
    return needed <= count and (positional >= count or arguments.vararg is not None) and not keywords_needed


def _signature(name: str, parameters: Sequence[str]) -> str:
    return f"write def {name}({', '.join(parameters)}): … and return a DataFrame"
