"""YAML as plain data with line numbers; everything that is more than data is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import yaml

# Keys and list positions from the top of the document down to a value.
Path = tuple[str | int, ...]

_SCALARS = {f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "str")}
# YAML 1.1 parses 2024-01-01 as a date and 1:30 as a sexagesimal number; we take both as text.
_TEXTS = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"}
# Beginning of a field at the top of a document.
_TOP_LEVEL = re.compile(r"^[A-Za-z_]\w*[ \t]*:(?=\s|$)", re.MULTILINE)
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# How deep values may be nested. libyaml's own recursion ends the process where a document is some thousands deep.
DEPTH = 100
_NESTING = ("[", "{", "- ", "? ")


@dataclass(frozen=True)
class Fault:
    """Something in the document that is not plain data."""

    code: str
    path: Path
    message: str
    line: int
    hint: str = ""


@dataclass
class Document:
    """A parsed document.

    Attributes:
        data: its values: dict, list, str, int, float, bool or None.
        faults: values that are not plain data; they are left out of ``data``.
        lines: line of each key (or item of a list), counted from 1.
        texts: line of the first line of each text in ``|`` style.
    """

    data: Any = None
    faults: list[Fault] = field(default_factory=list)
    lines: dict[Path, int] = field(default_factory=dict)
    texts: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """Return the line of a value, or of its nearest parent in the document."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read(text: str) -> Document:
    """Parse a document; errors are in its ``faults``."""
    document = Document()
    try:
        _check_depth(text)
        loader = _LOADER(text)
        try:
            root = loader.get_single_node()
            if root is not None:
                document.data = _Builder(document, loader).build(root, ())
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        position = getattr(error, "problem_mark", None)
        parts = [getattr(error, "context", None), getattr(error, "problem", None)]
        problem = ", ".join(part for part in parts if part) or str(error)
        line = 1
        if position:
            line = position.line + 1
        document.faults.append(Fault("yaml-syntax", (), f"invalid YAML: {problem}", line, _advice(problem)))
        document.data = None
    return document


def _check_depth(text: str) -> None:
    """Raise ``YAMLError`` if values are nested too deep; most documents have too few marks for that."""
    if sum(map(text.count, _NESTING)) + text.count("\n") < DEPTH:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH:
            place: Any = event.start_mark
            raise yaml.MarkedYAMLError(problem=f"nested more than {DEPTH} deep", problem_mark=place)


def sections(text: str) -> dict[str, Any]:
    """Read the top-level fields of a document; if it has an error, read each field alone.

    A field that cannot be read is None, so that its name is known.
    """
    data = read(text).data
    if isinstance(data, dict):
        return data
    begins = [match.start() for match in _TOP_LEVEL.finditer(text)]
    lines: dict[str, Any] = {}
    for begin, end in pairwise([*begins, len(text)]):
        alone = read(text[begin:end]).data
        if isinstance(alone, dict):
            lines |= alone
        else:
            lines |= {text[begin:end].partition(":")[0].strip(): None}
    return lines


def replace_value(text: str, field: str, value: str) -> str:
    """Replace a plain value of a top-level field, and keep all else, with comments and spaces.

    Raises:
        KeyError: it has no such field.
    """
    begin = ""
    if text.startswith("\ufeff"):
        begin = "\ufeff"
    text = text.removeprefix(begin)
    root = yaml.compose(text, Loader=yaml.SafeLoader)  # the other loader counts bytes
    fields = []
    if isinstance(root, yaml.MappingNode):
        fields = root.value
    place = {key.value: node for key, node in fields}[field]
    return f"{begin}{text[: place.start_mark.index]}{value}{text[place.end_mark.index :]}"


def _advice(problem: str) -> str:
    if "alias" in problem:
        return 'quote a value that starts with *, for example schedule: "*/15 * * * *"'
    if "tab" in problem or "'\\t'" in problem:
        return "indent with spaces, not tabs"
    if "mapping values" in problem:
        return "quote a value that contains a colon"
    return ""


class _Builder:
    """Builder of values from nodes; it refuses aliases of a node within itself, and more than 10,000 nodes."""

    def __init__(self, document: Document, loader: Any) -> None:
        self.document = document
        self.loader = loader
        self.open: set[int] = set()
        self.left = 10_000

    def build(self, node: yaml.Node, path: Path) -> Any:
        self.document.lines.setdefault(path, node.start_mark.line + 1)
        self.left -= 1
        if id(node) in self.open or self.left < 0:
            self._add_fault("yaml-alias", path, "aliases expand to too many values", node)
            return None
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return self._sequence(node, path)
            return self._scalar(node, path)
        finally:
            self.open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        if node.tag != "tag:yaml.org,2002:map":
            self._tag(node, path)
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key, str) or key_node.tag == "tag:yaml.org,2002:merge":
                message = "a key must be a plain name; merge keys (<<) are not supported"
                self._add_fault("yaml-key", path, message, key_node)
                continue
            inner = (*path, key)
            if key in mapping:
                first = self.document.lines[inner]
                self._add_fault("duplicate-key", inner, f"duplicate key {key} (first on line {first})", key_node)
                continue
            self.document.lines[inner] = key_node.start_mark.line + 1
            mapping[key] = self.build(value_node, inner)
        return mapping

    def _sequence(self, node: yaml.SequenceNode, path: Path) -> list[Any]:
        if node.tag != "tag:yaml.org,2002:seq":
            self._tag(node, path)
        return [self.build(item, (*path, number)) for number, item in enumerate(node.value)]

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        if node.tag in _TEXTS:
            return node.value
        if node.tag not in _SCALARS:
            self._tag(node, path)
            return None
        if getattr(node, "style", None) == "|":
            self.document.texts[path] = node.start_mark.line + 2
        if ":" in node.value and node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float"):
            return node.value
        try:
            return self.loader.construct_object(node)
        except (yaml.YAMLError, ValueError, KeyError):  # KeyError is what PyYAML has for `!!bool q`
            self._add_fault("yaml-value", path, f"invalid value {node.value}", node)
            return None

    def _tag(self, node: yaml.Node, path: Path) -> None:
        tag = str(node.tag).replace("tag:yaml.org,2002:", "!!")
        self._add_fault("yaml-tag", path, f"unsupported tag {tag}: a definition is plain data", node, "remove the tag")

    def _add_fault(self, code: str, path: Path, message: str, node: yaml.Node, hint: str = "") -> None:
        self.document.faults.append(Fault(code, path, message, node.start_mark.line + 1, hint))
