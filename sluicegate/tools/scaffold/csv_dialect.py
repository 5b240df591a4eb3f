"""CSV dialect of a text, from its first lines: separator, header, quotes."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sluicegate.bronze.text import csv_check
from sluicegate.bronze.text.csv_records import Grammar, Records
from sluicegate.tools.scaffold import csv_header

SEPARATORS = (",", ";", "\t", "|")

# Spark, which reads line by line without multiLine, ends a line at each of them.
LINE_BREAK = re.compile(r"[\r\n]")

COMMENT = "#"

# Control-Z, which programs of DOS write as the last line of a text.
END_OF_TEXT = "\x1a"

# Rows for detecting the separator, and the longest value, in characters.
_FIRST, _LONGEST = 200, 1 << 20


@dataclass(frozen=True)
class CsvText:
    """Sample of a CSV text.

    Attributes:
        options: options that Spark's reader needs for it.
        columns: names of its columns; ``_c0``, ``_c1``, … where it names none, as Spark calls them.
        rows: rows below the header; an empty value is None.
        guessed: what of that is a guess, in words.
        doubt: whether the decision on the header is uncertain.
    """

    options: dict[str, str]
    columns: list[str]
    rows: list[list[str | None]]
    guessed: list[str]
    doubt: bool = False


def read(text: str, whole: bool, most: int, header: bool | None = None) -> CsvText | None:
    """Read the beginning of a CSV text.

    Args:
        text: the text, or its beginning.
        whole: whether it is the whole text; else its last line may be cut off.
        most: most rows to read.
        header: whether there is a header; None to guess.

    Returns:
        the sample; None if it is no table.
    """
    lines = list(io.StringIO(text, newline=""))
    if not whole and len(lines) > 1:
        lines.pop()
    separator, named = _separator(text, whole)
    comment = _comment(lines, separator, whole)
    skipped = named + _preamble_length(lines[named:], Grammar(separator, comment=comment), header)
    lines = [line for line in lines[skipped:] if not (comment and line.startswith(comment))]
    grammar, remarks = _grammar(lines, separator)
    rows = list(itertools.islice(_sound_rows(lines, grammar), most + 1))
    if not rows:
        return None
    width = csv_header.usual_width(map(len, rows))
    doubt = False
    if header is None:
        guess = csv_header.guess(rows)
        header, doubt = guess.header, guess.in_doubt
        remarks.append(guess.remark)
    if header and len(rows[0]) < width:
        remarks.append(f"the header has {len(rows[0])} names for {width} values: longer rows are corrupt (in doubt)")
    names = [""] * max(width, len(rows[0]))
    if header:
        names = rows[0]
    columns = column_names(names)
    values = [_pad_row(row, len(columns)) for row in rows[header : most + header]]
    options = _options(separator, grammar, rows, header=header)
    if comment:
        options["comment"] = comment
    if skipped:
        options["skipRows"] = str(skipped)
        remarks.append(f"the table begins in line {skipped + 1}")
    return CsvText(options, columns, values, remarks, doubt)


def _comment(lines: Sequence[str], separator: str, whole: bool) -> str:
    """Character by which lines are known that are not read; empty if there are none. A text ends in its last line."""
    if _has_comments(lines, separator):
        return COMMENT
    if whole and lines and lines[-1].strip() == END_OF_TEXT:
        return END_OF_TEXT
    return ""


def _has_comments(lines: Sequence[str], separator: str) -> bool:
    """Whether the first lines are comments, and not a header or rows, which have as many values as other lines."""
    separators = Counter(line.count(separator) for line in lines if not line.startswith(COMMENT))
    comments = [line for line in lines if line.startswith(COMMENT)]
    if not separators or not lines[0].startswith(COMMENT):
        return False
    usual = max(separators, key=lambda count: separators[count])
    return all(line.count(separator) < usual for line in comments)


def _separator(text: str, whole: bool) -> tuple[str, int]:
    """Separator of a text, and the number of lines that only name it."""
    if named := csv_header.named_separator(text.partition("\n")[0]):
        return named, 1
    return max(SEPARATORS, key=lambda candidate: _separator_fit(text, candidate, whole)), 0


def _preamble_length(lines: Sequence[str], grammar: Grammar, header: bool | None) -> int:
    """Number of lines above a header that is certain, or that a person has said to be there."""
    if header is False:
        return 0
    length = csv_header.preamble_length(lines[:_FIRST], grammar)
    if length and header is None:
        below = csv_header.guess(list(_sound_rows(lines[length : length + _FIRST], grammar)))
        if not below.header or below.in_doubt:
            return 0
    return length


def _options(separator: str, grammar: Grammar, rows: Sequence[Sequence[str]], *, header: bool) -> dict[str, str]:
    """Options that Spark's reader needs for a dialect."""
    options = {"header": "true" if header else "false"}
    if separator != ",":
        options["sep"] = separator
    if not grammar.quote:
        options["quote"] = ""
    elif grammar.escape != grammar.quote:
        options["escape"] = grammar.escape
    if any(LINE_BREAK.search(value) for row in rows for value in row):
        options["multiLine"] = "true"
    return options


def column_names(header: Sequence[str]) -> list[str]:
    """Column names from a header: ``_c0``, ``_c1``, … where it has none, as Spark calls them."""
    return [name or f"_c{number}" for number, name in enumerate(header)]


def name_occurrences(names: Sequence[str]) -> list[tuple[str, int]]:
    """Names with their number of earlier occurrences: the second is in rescued data, a third is lost there."""
    counts = Counter[str]()
    numbered_names = []
    for name in names:
        numbered_names.append((name, counts[name]))
        counts[name] += 1
    return numbered_names


def records(lines: Iterable[str], options: Mapping[str, str]) -> Iterator[list[str | None]]:
    """All rows of a CSV text that are not blank, the header too; an empty value is None.

    Args:
        lines: the text, line by line, with the ends of its lines.
        options: options of Spark's reader, as ``read`` gives them.

    Raises:
        csv.Error: it cannot be parsed further, or text follows a quoted value, which programs read differently.
    """
    lines = itertools.islice(lines, int(options.get("skipRows", "0")), None)
    comment = options.get("comment")
    if comment:
        lines = (line for line in lines if not line.startswith(comment))
    backslash, quoted = options.get("escape") == "\\", options.get("quote", '"') != ""
    for row in _reader(lines, options.get("sep", ","), backslash, strict=True, quoted=quoted):
        if any(value.strip() for value in row):
            yield [value.replace("\r\n", "\n") or None for value in row]


def _pad_row(row: Sequence[str], count: int) -> list[str | None]:
    return [value or None for value in [*row, *[""] * (count - len(row))][:count]]


def _grammar(lines: Sequence[str], separator: str) -> tuple[Grammar, list[str]]:
    """The reading of quotes in which the most lines are records with as many values as most have, and remarks on it.

    By RFC 4180 unless another is better; quotes are plain characters only if hardly a value is quoted as a whole.
    """
    usual = Grammar(separator)
    if not any('"' in line for line in lines):
        return usual, []
    columns = csv_check.usual_count(lines, usual)
    bad = _misread_count(lines, usual, columns)
    if not bad:
        return usual, []
    if any('\\"' in line for line in lines):
        other = Grammar(separator, escape="\\")
        if _misread_count(lines, other, columns) < bad:
            return other, ["a backslash stands before a quote within quotes"]
    plain = Grammar(separator, quote="")
    if _misread_count(lines, plain, columns) < bad and _quoted_line_count(lines, usual) <= bad:
        return plain, ["quotes are characters like others: where they begin a value, they do not end one"]
    if odd := sum(not sound for _, sound in Records(lines, columns, usual).split(header=False)):
        return usual, [f"quotes contradict each other in {odd:,} of the records, which become corrupt ones (in doubt)"]
    return usual, []


def _misread_count(lines: Sequence[str], grammar: Grammar, columns: int) -> int:
    """Number of records that are not sound, or have another number of values than most."""
    parts = Records(lines, columns, grammar).split(header=False)
    return sum(not sound or grammar.count(record) != columns for record, sound in parts)


def _quoted_line_count(lines: Sequence[str], grammar: Grammar) -> int:
    """Number of lines with a value that is quoted as a whole."""
    closed = (line for line in lines if '"' in line and grammar.closes(line))
    return sum(not grammar.has_stray_quote(line) for line in closed)


def _sound_rows(lines: Sequence[str], grammar: Grammar) -> Iterator[list[str]]:
    """Values of the records whose quotes can be believed."""
    columns, backslash = csv_check.usual_count(lines, grammar), grammar.escape == "\\"
    for record, sound in Records(lines, columns, grammar).split(header=False):
        parts = io.StringIO(record, newline="")
        if sound:
            yield from _rows_before_error(_reader(parts, grammar.separator, backslash, quoted=bool(grammar.quote)))


def _separator_fit(text: str, separator: str, whole: bool) -> tuple[float, bool, int]:
    """Fit of a separator; by lines where a quote that is never closed would make far fewer records of them."""
    backslash = re.search(r'\\"', text) is not None
    rows = _rows(text, separator, whole, _FIRST, backslash)
    lines = text.split("\n", _FIRST)[:_FIRST]
    if len(rows) * 2 >= len(lines):
        return _fit(rows)
    return max(_fit(rows), _fit([line.rstrip("\r").split(separator) for line in lines if line.strip()], torn=True))


def _rows(text: str, separator: str, whole: bool, most: int, backslash: bool) -> list[list[str]]:
    """Rows that are not blank; a row cut off by the end of the sample is left out."""
    rows = []
    ahead = _rows_before_error(_reader(io.StringIO(text, newline=""), separator, backslash))
    last: list[str] | None = None
    for row in ahead:
        if last:
            rows.append(last)
        if len(rows) >= most:
            return rows
        last = row
    if last and (whole or not rows):
        rows.append(last)
    return rows


def _reader(
    lines: Iterable[str], separator: str, backslash: bool, *, strict: bool = False, quoted: bool = True
) -> Iterator[list[str]]:
    if not quoted:
        return csv.reader(lines, delimiter=separator, quoting=csv.QUOTE_NONE)
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST * 8))
    escape = "\\" if backslash else None
    plain = map(_double_backslashes, lines) if backslash else lines
    return csv.reader(plain, delimiter=separator, escapechar=escape, doublequote=not backslash, strict=strict)


def _double_backslashes(line: str) -> str:
    """Line with its backslashes doubled if nothing is quoted: Spark escapes in quotes only, Python always."""
    if '"' in line:
        return line
    return line.replace("\\", "\\\\")


def _rows_before_error(reader: Iterator[list[str]]) -> Iterator[list[str]]:
    try:
        for row in reader:
            if any(value.strip() for value in row):
                yield [value.replace("\r\n", "\n") for value in row]
    except csv.Error:
        return


def _fit(rows: list[list[str]], *, torn: bool = False) -> tuple[float, bool, int]:
    """Fit of a separator: the share of rows with the usual number of columns, then that number.

    A row with half of a quoted value does not count: a character that tears values apart is within them and separates
    nothing, unless rows may be ``torn``, as quotes have no meaning. The first line needs as many columns: a decimal
    comma is in each row of numbers, and in no header.
    """
    whole = Counter(len(row) for row in rows if torn or not any(value.count('"') % 2 for value in row))
    if not whole:
        return (0.0, False, 0)
    columns, often = max(whole.items(), key=lambda item: (item[1], item[0]))
    if columns < 2:
        return (0.0, False, 0)
    return (round(often / len(rows), 1), len(rows[0]) >= columns, columns)
