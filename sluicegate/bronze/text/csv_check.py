"""Check before reading whether Spark parses a CSV file as RFC 4180 does.

For a file without quotes, the check only searches its blocks for one byte, a small part of reading it. The lines of
other files are checked up to the first one that Spark would parse differently.
"""

from __future__ import annotations

import codecs
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluicegate.bronze import file_headers
from sluicegate.bronze.text.csv_records import Grammar, extent
from sluicegate.storage import filesystems

BLOCK = 1 << 20

RETURNS = "a quoted value contains a carriage return"

# Lines by which the usual number of values is known.
SAMPLE = 1000

# Encodings in which a byte below 128 is that character, wherever it stands.
_PLAIN = {"utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252"}

# Options by which a definition says itself how its quotes are meant, or its lines end.
UNCHECKED = {"unescapedquotehandling", "linesep", "chartoescapequoteescaping"}


def header_and_check(path: str, options: dict[str, str], separator: str, header: bool, check: bool) -> dict[str, Any]:
    """Return the header of a CSV file as ``file_headers.header`` does, and its ``find_trouble``.

    Args:
        path: the file.
        options: reader options by lower-case name.
        separator: separator of values.
        header: whether to read the header.
        check: whether to check the file.
    """
    about = {}
    if header:
        about = file_headers.header(path, options, separator)
    if not check or "error" in about:
        return about
    found = find_trouble(path, options)
    if found and header:  # Spark takes the first line for it, even if a quote is open at its end
        about = file_headers.header(path, {**options, "multiline": "true"}, separator)
    return {**about, "trouble": found}


def find_trouble(path: str, options: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the first ``line`` that Spark would parse unlike RFC 4180, and ``why``; None if there is none.

    Also the number of ``characters`` of the file, since its listed size may be compressed, the usual number of
    ``columns``, and ``begins``, whether the first record is plausible. The trouble is ``minor`` if Spark reads all
    records but drops carriage returns. A file that cannot be read is left to Spark, whose error names the damage.
    """
    grammar = Grammar.from_options(options)
    several = options.get("multiline", "").lower() == "true"
    encoding = options.get("encoding", options.get("charset", "utf-8"))
    skipped = int(options.get("skiprows", "0"))
    try:
        if not _needs_lines(path, grammar, encoding, several=several):
            return None
        with _open_text(path, encoding) as file:
            lines = _CountedLines(itertools.islice(file, skipped, None), skipped)
            check = _Check(grammar, several)
            found = check.find_first(lines)
            minor = found is None and check.returns
            if found is None and not minor:
                return None
            at = lines.number
            for _ in lines:
                pass
        with _open_text(path, encoding) as file:
            first = itertools.islice(file, skipped, skipped + SAMPLE)
            beginning = [line for line in first if not grammar.is_no_record(line)]
        facts = {"line": at, "why": found or RETURNS, "minor": minor, "characters": lines.characters}
        begins = not beginning or extent(beginning, 0, grammar).closed
        return {**facts, "columns": usual_count(beginning, grammar), "begins": begins}
    except file_headers.BROKEN:
        return None


def _open_text(path: str, encoding: str) -> Any:
    how = {"newline": "", "errors": "replace", "encoding": python_encoding(encoding)}
    return filesystems.reader(path, "rt", "infer", **how)


def usual_count(lines: Sequence[str], grammar: Grammar) -> int:
    """Return the usual number of values in records whose quotes are closed."""
    counts = Counter[int]()
    at = 0
    while at < len(lines):
        record, parts = extent(lines, at, grammar), lines[at:at]
        if record.closed:
            parts = lines[at : record.end]
        if parts and not grammar.is_no_record(parts[0]):
            count = grammar.count("".join(parts))
            # Each of its lines is one if they may be records that a quote has swallowed.
            alike = all(part.count(grammar.separator) + 1 == count for part in parts)
            if alike:
                counts[count] += len(parts)
            else:
                counts[count] += 1
        at += max(1, len(parts))
    if not counts:
        return 1
    return counts.most_common(1)[0][0]


def python_encoding(name: str) -> str:
    """Return Python's name of an encoding, such that the text has no byte order mark.

    Raises:
        LookupError: Python does not support the encoding.
    """
    known = codecs.lookup(name).name
    if known == "utf-8":
        return "utf-8-sig"
    return known


def _needs_lines(path: str, grammar: Grammar, encoding: str, *, several: bool) -> bool:
    """Return whether a file has a byte that requires a check of its lines."""
    if codecs.lookup(encoding).name not in _PLAIN or not grammar.quote.isascii():
        return True
    signs = []
    if grammar.quote:
        signs = [grammar.quote.encode()]
    if several:
        signs.append(b"\r")
    with filesystems.reader(path, "rb", "infer") as file:
        first = file.read(BLOCK)
        if several and first and _begins_blank(first):
            return True
        blocks = itertools.chain([first], iter(lambda: file.read(BLOCK), b""))
        return any(sign in block for block in blocks for sign in signs)


def _begins_blank(block: bytes) -> bool:
    """Return whether a text begins with a blank line, which Spark takes for the header of a file read as one."""
    return not block.lstrip(b"\n").partition(b"\n")[0].strip()


@dataclass
class _CountedLines:
    """Iterator that counts lines and their characters."""

    lines: Iterable[str]
    number: int = 0
    characters: int = 0

    def __iter__(self) -> Iterator[str]:
        for line in self.lines:
            self.number += 1
            self.characters += len(line)
            yield line


@dataclass
class _Check:
    """Check of a file's lines for what Spark parses differently.

    Attributes:
        grammar: characters with a meaning.
        several: whether Spark parses the file as a whole, so that a record may have several lines.
        columns: number of values of the first record.
        ends: line endings so far; Spark uses the first for all lines.
        returns: whether a quoted value has a carriage return, which Spark drops when it parses a file as a whole.
    """

    grammar: Grammar
    several: bool
    columns: int = 0
    ends: set[str] = field(default_factory=set)
    returns: bool = False

    def find_first(self, counted: Iterable[str]) -> str | None:
        """Return the first problem; the lines after it are left in the iterator."""
        lines = iter(counted)
        for line in lines:
            if self.several and (why := self._blank_fault(line)):
                return why
            if self.grammar.is_no_record(line):
                continue
            parts = [line]
            if not self.grammar.closes(line) and (why := self._multi_line_fault(parts, lines)):
                return why
            self.returns |= self.several and any("\r" in part for part in parts[:-1])
            if self.several and (why := self._line_end(parts)):
                return why
            if not self.columns:
                self.columns = self.grammar.count("".join(parts))
        return None

    def _line_end(self, parts: Sequence[str]) -> str | None:
        """Return the fault of a record with another line ending: Spark uses the first one, even within quotes."""
        of_all = (parts[-1],) if self.ends else (parts[0], parts[-1])
        self.ends |= {line[len(line.rstrip("\r\n")) :] for line in of_all} - {""}
        if len(self.ends) > 1:
            return "its line ending differs from that of the lines before it"
        return None

    def _blank_fault(self, line: str) -> str | None:
        blank = not self.columns and line.strip("\r\n") and not line.strip()
        if blank:
            return "it is blank and precedes the first record"
        return None

    def _multi_line_fault(self, parts: list[str], lines: Iterator[str]) -> str | None:
        """Return the fault of a record whose quotes are not closed in its first line; append its other lines."""
        if not self.grammar.opening.fullmatch(parts[0]):
            return "text follows a closing quote, or a quote within a value is not doubled"
        if not self.several:
            return "a quote is still open at its end"
        for line in lines:
            parts.append(line)
            if self.grammar.stays_open(line):
                continue
            if not self.grammar.closing.fullmatch(line):
                return "text follows a closing quote, or a line before it opens a quote by mistake"
            return self._doubt_reason(parts)
        return "the file ends within a quote"

    def _doubt_reason(self, parts: list[str]) -> str | None:
        """Return why a record of several lines may be several records."""
        count = self.grammar.count("".join(parts))
        if self.columns and count != self.columns:
            return "a multi-line value ends in it, and its record has another number of values than the others"
        alike = all(part.count(self.grammar.separator) + 1 == count for part in parts)
        if alike:
            return "a multi-line value ends in it, of which each line looks like a record"
        return None
