"""Split CSV text into records by RFC 4180, and judge whether their quotes are plausible.

A quote opens a quoted value only at the start of a value, and closes it only before a separator or the end of a line
(https://www.rfc-editor.org/rfc/rfc4180, section 2). Spark's parser accepts anything else: a quote that is never closed
swallows lines up to the next one, and a line break in quotes splits a record when it reads line by line. So text is
split here, and neither of two contradicting readings is used.

This module is sent to executors that may not have this package: it imports nothing of it.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

# A value that is no word: a number, a date, a time, an amount.
FIGURE = re.compile(r"\s*[+-]?[0-9][0-9.,:/+\-TZ ]*\s*")

# What no text has, in the place of a quote where nothing is quoted.
NO_CHARACTER = "\0"

# What stands for a byte that is no text.
NO_TEXT = re.compile("[\udc80-\udcff]")

# Lines by which the columns of figures are known, and how many of them have to be figures.
FELLOWS, FIGURES = 200, 0.9

# Separators that lines in a quoted value must have, in exactly the places of records, to be taken for records: where
# columns of figures agree, and where there are none that could.
AGREEING, UNSUPPORTED = 2, 4

# Share of lines that have the columns of records for a text to be taken for records, and how many lines that needs.
MOST, SEVERAL = 0.9, 5


# Not frozen, and without cached properties: their locks cannot be sent to executors.
@dataclass
class Grammar:
    """Special characters of a CSV text, and patterns of its lines.

    Attributes:
        separator: separator of values; one or more characters.
        quote: quote character; empty if nothing is quoted.
        escape: escape character of a quote in a quoted value; the quote itself by RFC 4180.
        comment: first character of a comment line; empty for none.
        leading: whether blanks before a quote are dropped.
        cell: one value, quoted or not.
        line: a line whose quotes are all closed.
        opening: a line that ends in an open quote.
        inside: the part of a line that is within a quote which an earlier line opened.
        closing: a line that closes a quote which an earlier line opened.
        closing_and_opening: a line that closes a quote which an earlier line opened, and ends in another.
    """

    separator: str = ","
    quote: str = '"'
    escape: str = '"'
    comment: str = ""
    leading: bool = False
    cell: re.Pattern[str] = field(init=False)
    line: re.Pattern[str] = field(init=False)
    opening: re.Pattern[str] = field(init=False)
    inside: re.Pattern[str] = field(init=False)
    closing: re.Pattern[str] = field(init=False)
    closing_and_opening: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        quote, separator, escape = (
            re.escape(sign or NO_CHARACTER) for sign in (self.quote, self.separator, self.escape)
        )
        # Groups are not possessive: in Python 3.11.2 such a group fails where a part of it was tried in vain, so that
        # right records were cut. What follows a group never fits into it: none needs to be.
        body = f"[^{quote}]*+(?:{quote}{quote}[^{quote}]*+)*"
        if self.escape != self.quote:
            body = rf"[^{quote}{escape}]*+(?:{escape}[\s\S][^{quote}{escape}]*+)*"
        blanks = "".join(blank for blank in " \t" if blank not in self.separator)
        if blanks:
            blanks = f"[{blanks}]*+"
        before = ""
        if self.leading:
            before = blanks
        if len(self.separator) == 1:
            text = rf"[^{separator}\r\n]*+"
        else:
            text = rf"(?:(?!{separator})[^\r\n])*"
        cell = f"(?:{before}{quote}{body}{quote}{blanks}|(?!{before}{quote}){text})"
        last = rf"(?:{separator}{cell})*[\r\n]*"
        self.cell = re.compile(cell)
        self.line = re.compile(cell + last)
        self.opening = re.compile(f"(?:{cell}{separator})*?{before}{quote}{body}")
        self.inside = re.compile(body)
        self.closing = re.compile(f"{body}{quote}{blanks}{last}")
        between = f"(?:{separator}{cell})*?{separator}{before}"
        self.closing_and_opening = re.compile(f"{body}{quote}{blanks}{between}{quote}{body}")

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Grammar:
        """Build the grammar from reader options with lower-case names."""
        separator = options.get("sep", options.get("delimiter", ",")).replace("\\t", "\t")
        quote = options.get("quote", '"')
        leading = options.get("ignoreleadingwhitespace", "").lower() == "true"
        return cls(separator, quote, options.get("escape") or quote, options.get("comment", ""), leading)

    def has_quote(self, line: str) -> bool:
        """Return whether a line has a quote that may be special."""
        return bool(self.quote) and self.quote in line

    def closes(self, line: str) -> bool:
        """Return whether all quotes of a line that begins a record are closed in it."""
        return not self.has_quote(line) or self.line.fullmatch(line) is not None

    def stays_open(self, line: str) -> bool:
        """Return whether a line that begins within a quote ends within one."""
        inside = not self.has_quote(line) or self.inside.fullmatch(line) is not None
        return inside or self.closing_and_opening.fullmatch(line) is not None

    def count(self, record: str) -> int:
        """Return the number of values in a record whose quotes are closed."""
        if not self.has_quote(record):
            return record.count(self.separator) + 1
        count, place = 1, 0
        while (value := self.cell.match(record, place)) and record.startswith(self.separator, value.end()):
            count, place = count + 1, value.end() + len(self.separator)
        return count

    def filled_count(self, record: str) -> int:
        """Return the number of values in a record that are not blank."""
        return sum(bool(value.strip()) for value in self.values(record))

    def values(self, record: str) -> Iterator[str]:
        """Yield the values of a record as they are written, up to one whose quotes are not closed."""
        place = 0
        while value := self.cell.match(record, place):
            yield value.group()
            if not record.startswith(self.separator, value.end()):
                return
            place = value.end() + len(self.separator)

    def has_stray_quote(self, line: str) -> bool:
        """Return whether an unquoted value of a line has a quote, as in the second half of a record."""
        if not self.has_quote(line):
            return False
        values = self.values(line)
        if self.leading:
            values = map(str.lstrip, values)
        return any(self.quote in value and not value.startswith(self.quote) for value in values)

    def is_no_record(self, line: str) -> bool:
        """Return whether a line outside of quotes is blank or a comment, which Spark skips."""
        return not line.strip() or bool(self.comment and line.startswith(self.comment))


@dataclass(frozen=True)
class Extent:
    """Extent of a record over several lines.

    Attributes:
        end: number of the line after its last one.
        closed: whether its quotes are closed; otherwise its last line is where they cannot be, or the text's last.
        whole: whether the text ended before its quotes were closed.
    """

    end: int
    closed: bool
    whole: bool = False


def records(content: bytes, grammar: Grammar, columns: int, header: bool, encoding: str) -> list[tuple[str, bool]]:
    """Return the records of a file and whether each is plausible; an undecodable byte makes one implausible.

    Args:
        content: the decompressed file.
        grammar: characters with a meaning.
        columns: number of values of a record.
        header: whether the first record is a header, which is dropped.
        encoding: Python's name of the file's encoding.
    """
    text = content.decode(encoding, "surrogateescape")
    lines = list(io.StringIO(text, newline=""))
    texts = Records(lines, columns, grammar).split(header=header)
    return [(NO_TEXT.sub("\ufffd", record), sound and not NO_TEXT.search(record)) for record, sound in texts]


def extent(lines: Sequence[str], first: int, grammar: Grammar) -> Extent:
    """Return the extent of the record that begins in line ``first``."""
    if grammar.closes(lines[first]):
        return Extent(first + 1, closed=True)
    if not grammar.opening.fullmatch(lines[first]):
        return Extent(first + 1, closed=False)
    for number in range(first + 1, len(lines)):
        if not grammar.stays_open(lines[number]):
            return Extent(number + 1, closed=grammar.closing.fullmatch(lines[number]) is not None)
    return Extent(len(lines), closed=False, whole=True)


@dataclass
class Records:
    """Splitter of one CSV text into records.

    Attributes:
        lines: its lines, with their ends.
        columns: number of values of a record.
        grammar: characters with a meaning.
        figures: columns that have digits in lines without a quote.
    """

    lines: Sequence[str]
    columns: int
    grammar: Grammar
    figures: list[int] = field(init=False)

    def __post_init__(self) -> None:
        plain = (line for line in self.lines[1:] if not self.grammar.has_quote(line) and line.strip())
        rows = (_strip_line_end(line).split(self.grammar.separator) for line in plain if self._has_all(line))
        fellows = list(itertools.islice(rows, FELLOWS))
        self.figures = [place for place in range(self.columns) if _is_of_figures([row[place] for row in fellows])]

    def split(self, *, header: bool) -> Iterator[tuple[str, bool]]:
        """Yield each record without its last line ending, and whether its quotes are plausible.

        Args:
            header: whether the first record is a header, which is dropped.
        """
        number, after_tail = self._header_end() if header else 0, False
        while number < len(self.lines):
            line = self.lines[number]
            if self.grammar.is_no_record(line):
                number += 1
                continue
            if self.grammar.closes(line):
                # After a quote that could not be closed, what looks like its end is no record.
                after_tail = after_tail and self._is_tail(line)
                yield _strip_line_end(line), not after_tail
                number += 1
                continue
            quoted_record = extent(self.lines, number, self.grammar)
            parts = self.lines[number : quoted_record.end]
            if quoted_record.closed and self._is_believed(parts):
                yield _strip_line_end("".join(parts)), True
                number, after_tail = quoted_record.end, False
                continue
            swallowed = parts[1:]
            if not quoted_record.whole:
                swallowed = parts[1:-1]
            if self._are_records(swallowed):
                yield _strip_line_end(line), False
                yield from ((_strip_line_end(part), True) for part in swallowed if not self.grammar.is_no_record(part))
                if quoted_record.closed:
                    yield _strip_line_end(parts[-1]), False
                number, after_tail = self._records_end(quoted_record), False
                continue
            yield _strip_line_end("".join(parts)), False
            number, after_tail = quoted_record.end, not quoted_record.closed

    def _header_end(self) -> int:
        """Return the number of the line after the first record."""
        for number, line in enumerate(self.lines):
            if not self.grammar.is_no_record(line):
                return extent(self.lines, number, self.grammar).end
        return len(self.lines)

    @staticmethod
    def _records_end(swallowed: Extent) -> int:
        """Return the number of the next line; a line with an unclosable quote is split by itself."""
        if swallowed.closed or swallowed.whole:
            return swallowed.end
        return swallowed.end - 1

    def _is_tail(self, line: str) -> bool:
        return self.grammar.count(line) != self.columns or self.grammar.has_stray_quote(line)

    def _is_believed(self, parts: Sequence[str]) -> bool:
        """Return whether a multi-line quoted value is plausible: its record is complete, its lines are no records."""
        if self.grammar.count("".join(parts)) != self.columns:
            return False
        return not (all(map(self._has_all, parts)) and self._are_records(parts[1:]))

    def _has_all(self, line: str) -> bool:
        """Return whether a line has the values of a record if its quotes are ignored."""
        return line.count(self.grammar.separator) + 1 == self.columns

    def _are_records(self, lines: Sequence[str]) -> bool:
        """Return whether lines within a quote are records that it swallowed, not lines of a text."""
        filled = [line for line in lines if line.strip()]
        whole = [line for line in filled if self._has_all(line)]
        if len(whole) < min(len(filled), max(SEVERAL, MOST * len(filled))):
            return False
        separators = len(whole) * (self.columns - 1)
        if not self.figures:
            return separators >= UNSUPPORTED
        agreeing = [line for line in whole if self._agrees(line)]
        return separators >= AGREEING and len(agreeing) >= MOST * len(whole)

    def _agrees(self, line: str) -> bool:
        values = _strip_line_end(line).split(self.grammar.separator)
        figures = [values[place].strip(f" {self.grammar.quote}") for place in self.figures]
        return any(figures) and all(not value or FIGURE.fullmatch(value) for value in figures)


def _is_of_figures(values: Iterable[str]) -> bool:
    filled = [value for value in values if value.strip()]
    figures = sum(FIGURE.fullmatch(value) is not None for value in filled)
    return bool(filled) and figures >= FIGURES * len(filled)


def _strip_line_end(text: str) -> str:
    """Return a text without its last line ending."""
    if text.endswith("\r\n"):
        return text[:-2]
    if text.endswith(("\n", "\r")):
        return text[:-1]
    return text
