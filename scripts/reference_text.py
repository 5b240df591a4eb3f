"""What pages made from the program are put together of: docstrings as Markdown, tables, types in words."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, without columns that no row fills; an empty cell takes no room."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    filled = [place for place in range(len(heads)) if any(row[place] for row in cells)]
    shown = [[line[place] for place in filled] for line in [heads, *cells]]
    lines = [shown[0], ["---"] * len(filled), *shown[1:]]
    return "\n".join(" ".join(["|", *(f"{cell} |" if cell else "|" for cell in line)]) for line in lines)


def code(value: object) -> str:
    """A value as code."""
    return f"`{value}`"


def prose(text: str) -> str:
    """A docstring's or help's words as a sentence in Markdown, on one line."""
    line = re.sub(r"``(.+?)``", r"`\1`", " ".join(text.split()))
    return line[:1].upper() + line[1:].rstrip(".") + "." if line else ""


def summary(documented: object) -> str:
    """What a docstring says before its sections, paragraph by paragraph."""
    text = re.split(r"^(?:Attributes|Args|Returns|Raises):$", inspect.getdoc(documented) or "", flags=re.MULTILINE)[0]
    return "\n\n".join(prose(paragraph) for paragraph in text.strip().split("\n\n"))


def attributes(documented: type) -> dict[str, str]:
    """What the Attributes section of a class's docstring says of each name."""
    section = re.search(r"^Attributes:\n((?:    .*\n?)+)", inspect.getdoc(documented) or "", re.MULTILINE)
    found = re.findall(r"^    (\w+): ((?:.*\n?)(?:     +.*\n?)*)", section[1] if section else "", re.MULTILINE)
    # A field whose name Python has taken says its own name first; readers of the reference see that name anyway.
    return {name: prose(re.sub(r"^``\w+`` of the (definition|case): ", "", text)) for name, text in found}


def kind_of(field: Mapping[str, Any], place: str) -> tuple[str, dict[str, str]]:
    """The type of a field in words, and which model stands at which place below it."""
    if "anyOf" in field:
        kinds = [kind_of(one, place) for one in field["anyOf"] if one != {"type": "null"}]
        return " or ".join(kind for kind, _ in kinds), {at: model for _, below in kinds for at, model in below.items()}
    if "$ref" in field:
        return f"[fields](#{slug(place)})", {place: field["$ref"].rsplit("/", 1)[1]}
    values = field.get("enum") or ([field["const"]] if "const" in field else [])
    if values:
        return " or ".join(dict.fromkeys(code(value) for value in values)), {}
    if field["type"] == "array":
        kind, below = kind_of(field["items"], f"{place}[]") if "$ref" in field["items"] else ("names", {})
        return f"list of {kind}", below
    if field["type"] == "object":
        of = field["additionalProperties"]
        kind, below = ("any value", {}) if of is True else kind_of(of, f"{place}.NAME")
        return f"names, each with {kind}", below
    words: dict[str, str] = {"string": "text", "boolean": "true or false", "integer": "whole number"}
    types: list[str] = [field["type"]] if isinstance(field["type"], str) else field["type"]
    text = ", ".join(words.get(one, one) for one in types)
    bounds = [f"{word} {field[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in field]
    return " ".join([text, *bounds]), {}


def split_help(text: str) -> tuple[str, str, str]:
    """A help text as its meaning, the environment variable that it names, and the default."""
    for pattern in (r"\s*\[env: (\w+); default: (.+)\]$", r"\s*\(default: \$(\w+), else (.+)\)$"):
        if named := re.search(pattern, text):
            return prose(text[: named.start()]), code(named[1]), code(named[2])
    return prose(text), "", ""


def slug(heading: str) -> str:
    """The anchor that a heading gets where Markdown is shown as on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
