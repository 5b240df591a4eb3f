"""Explain why an XML file gave no record. For executors."""

from __future__ import annotations

from xml.parsers import expat

from sluicegate.bronze.file_sizes import blocks_of
from sluicegate.storage import filesystems

# Names of elements that are told.
SHOWN = 5


class _Elements:
    """Names of the elements of a file, and whether it has text."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.filled = False

    def start(self, name: str, _: object) -> None:
        self.names.setdefault(name)

    def text(self, text: str) -> None:
        self.filled = self.filled or not text.isspace()


def uninterpreted_reason(path: str, row_tag: str) -> str | None:
    """Return why a file gave no record though it has content; None if only its root element is there."""
    elements = _Elements()
    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.CharacterDataHandler = elements.start, elements.text
    try:
        with filesystems.reader(path) as file:
            for block in blocks_of(file, path):
                parser.Parse(block)
            parser.Parse(b"", True)
    except expat.ExpatError as error:
        if error.code == expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS]:
            return None
        return f"it has no records and is not well-formed XML: {error}"
    if len(elements.names) < 2 and not elements.filled:
        return None
    names = [f"<{name}>" for name in list(elements.names)[:SHOWN]]
    more = ""
    if len(elements.names) > SHOWN:
        more = " and others"
    return f"it has no element <{row_tag}> (option rowTag), so nothing was read; it has {', '.join(names)}{more}"
