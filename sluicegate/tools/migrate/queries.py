"""Queries of Delta Live Tables: their tables by address, and the files that they read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql.tokens import Span, Tokens
from sluicegate.tools.migrate.model import FILES, Files, Remark

_METADATA = {
    "file_path": "source_file", "file_modification_time": "_file_modification_time",
    "file_name": "substring_index(source_file, '/', -1)",
}  # fmt: skip


_UNIT = re.compile("(MICRO|MILLI)?(SECOND|MINUTE|HOUR|DAY|WEEK|MONTH|YEAR)S?")
_FORMATS = ("JSON", "CSV", "PARQUET", "ORC", "TEXT", "AVRO", "XML", "BINARYFILE")


class NotTaken(Exception):
    """Raised for what is not converted.

    Attributes:
        message: the reason.
        line: its line in the text read, counted from 1.
    """

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.message, self.line = message, line


@dataclass(frozen=True)
class ConvertedQuery:
    """Query as a definition can have it, the files that it reads, the token after it, and clauses that it has not."""

    query: str | None
    files: Files | None
    end: int
    remarks: list[Remark]


def unquote(raw: str) -> str:
    """Return the value of a SQL string literal."""
    if len(raw) < 2 or raw[0] not in "'\"" or raw[-1] != raw[0]:
        return raw
    return re.sub(r"\\(.)", r"\1", raw[1:-1]).replace(raw[0] * 2, raw[0])


def last_name(text: str) -> str:
    """Return the last part of a name, without backticks."""
    return text.strip().rpartition(".")[2].strip("` ")


def address(parts: Sequence[str]) -> str:
    """Return the address of a table in lower case, without ``LIVE``, which only says that the source declares it."""
    return ".".join(parts[1:] if len(parts) > 1 and parts[0].upper() == "LIVE" else parts).lower()


def convert_query(tokens: Tokens, first: int, lines_before: int, *, only_table: bool = False) -> ConvertedQuery:
    """Remove ``LIVE`` from a query, and put ``files__`` in place of the files that it reads.

    Args:
        tokens: tokens of the statement.
        first: first token of the query.
        lines_before: lines of the source above the statement.
        only_table: True if the query is a table alone, as after FROM.

    Raises:
        NotTaken: it reads files in several places, or in a way that is not known.
    """
    if first >= len(tokens):
        raise NotTaken("the query is missing")
    spans: list[Span] = []
    files: list[Files] = []
    end = first
    index = first
    while index < len(tokens):
        span, files_read = _replacement(tokens, index, lines_before)
        if span is not None:
            spans.append(span)
            if files_read:
                files += [files_read]
        index = end = (span.last if span else index) + 1
        if only_table:
            index = end = _index_after_name(tokens, index) if span is None else index
            break
    if len(files) > 1:
        raise NotTaken("it reads several sets of files: declare a table for each", tokens.line(first))
    clauses = [(index, last) for index in range(first, end) if (last := _clause_end(tokens, index)) is not None]
    spans += [Span(index, last, "") for index, last in clauses]
    text = tokens.compose(sorted(spans, key=lambda span: span.first), first, end)
    remarks = [_clause_remark(tokens, index, last, lines_before) for index, last in clauses]
    return ConvertedQuery(text, files[0] if files else None, end, remarks)


def _clause_end(tokens: Tokens, index: int) -> int | None:
    """Return the last token of a clause that only Databricks has behind a table, None if none begins at a token.

    It is a watermark, or options of the table's reader. ``WITH`` of common tables has a name behind it.
    """
    if tokens.word(index) == "WITH" and tokens.is_type(index + 1, TokenType.L_PAREN):
        return tokens.closing_index(index + 1)
    delays = (at for at in range(index + 2, len(tokens)) if tokens.word(at) == "DELAY" and tokens.word(at + 1) == "OF")
    if tokens.word(index) != "WATERMARK" or (delay := next(delays, None)) is None:
        return None
    return delay + 3 + bool(_UNIT.fullmatch(tokens.word(delay + 4)))


def _clause_remark(tokens: Tokens, first: int, last: int, lines_before: int) -> Remark:
    """Return the remark on a clause; without groups, no row depends on a watermark."""
    line, subject = lines_before + tokens.line(first), tokens.compose([], first, last + 1, compact=True)
    grouped = any(tokens.word(index).partition(" ")[0] in ("GROUP", "DISTINCT") for index in range(len(tokens)))
    if tokens.word(first) == "WATERMARK" and not grouped:
        return Remark(line, subject, "it has no effect without groups", changes_meaning=False)
    return Remark(line, subject, "not supported: late rows and changes of old rows count as well")


def _index_after_name(tokens: Tokens, index: int) -> int:
    while tokens.is_type(index, TokenType.DOT):
        index += 2
    return index


def _replacement(tokens: Tokens, index: int, lines_before: int) -> tuple[Span | None, Files | None]:
    """Return the replacement at a token, and the files that it reads, if any."""
    word = tokens.word(index)
    if word == "STREAM" and tokens.word(index - 1) in ("FROM", "JOIN", ","):
        return _stream(tokens, index, lines_before)
    if tokens.is_type(index + 1, TokenType.L_PAREN):
        return _call(tokens, index, lines_before)
    if not tokens.is_type(index + 1, TokenType.DOT):
        return None, None
    if word in _FORMATS and "/" in tokens.name(index + 2):
        line = lines_before + tokens.line(index)
        return Span(index, index + 2, FILES), Files(
            tokens.name(index + 2), word.lower(), {}, line, infers=True, whole=True
        )
    if word == "LIVE":
        return Span(index, index + 2, tokens.raw(index + 2)), None
    if word == "_METADATA":
        return _metadata(tokens, index), None
    return None, None


def _call(tokens: Tokens, index: int, lines_before: int) -> tuple[Span | None, Files | None]:
    """Return the replacement of a call of a function about files, if it is one."""
    word = tokens.word(index)
    if word in ("READ_FILES", "CLOUD_FILES"):
        files = _files(tokens, index, lines_before)
        last = tokens.closing_index(index + 1)
        if word == "CLOUD_FILES":
            return Span(index, last, f"STREAM({FILES})"), files
        return Span(index, last, FILES), replace(files, whole=True)
    if word == "INPUT_FILE_NAME":
        return Span(index, index + 2, "source_file"), None
    return None, None


def _metadata(tokens: Tokens, index: int) -> Span:
    """Return the column for a field of ``_metadata``, with that field's name as alias in the output."""
    field = tokens.name(index + 2).lower()
    if field not in _METADATA:
        raise NotTaken(f"_metadata.{field} is not stored: use source_file or receipt_time", tokens.line(index))
    named = tokens.word(index + 3) not in ("", ",", "FROM") or tokens.is_type(index + 3, TokenType.VAR)
    if named:
        return Span(index, index + 2, _METADATA[field])
    return Span(index, index + 2, f"{_METADATA[field]} AS {field}")


def _stream(tokens: Tokens, index: int, lines_before: int) -> tuple[Span, Files | None]:
    """Return the replacement of ``STREAM(x)``, ``STREAM x`` and ``STREAM read_files(…)``, with ``LIVE.`` or without."""
    closed = tokens.is_type(index + 1, TokenType.L_PAREN)
    inner = index + 1 + closed
    if tokens.word(inner) in ("READ_FILES", "CLOUD_FILES"):
        last = tokens.closing_index(inner + 1)
        return Span(index, last + closed, f"STREAM({FILES})"), _files(tokens, inner, lines_before)
    if tokens.word(inner) == "LIVE" and tokens.is_type(inner + 1, TokenType.DOT):
        inner += 2
    last = inner
    while tokens.is_type(last + 1, TokenType.DOT):
        last += 2
    return Span(index, last + closed, f"STREAM({tokens.compose([], inner, last + 1, compact=True)})"), None


def _files(tokens: Tokens, index: int, lines_before: int) -> Files:
    close = tokens.closing_index(index + 1)
    commas = [i for i in tokens.top_level(index + 2, close) if tokens.is_type(i, TokenType.COMMA)]
    items = list(zip([index + 2, *(comma + 1 for comma in commas)], [*commas, close], strict=True))
    line = lines_before + tokens.line(index)
    parts = [tokens.compose([], first, end, compact=True) for first, end in items]
    if not parts or parts[0][:1] not in "'\"":
        raise NotTaken("the path of the files is not a string literal", tokens.line(index))
    path = unquote(parts[0])
    if tokens.word(index) == "CLOUD_FILES":
        options = {}
        if len(parts) > 2:
            options = _map(parts[2])
        return Files(path, unquote(parts[1]).lower() if len(parts) > 1 else "", options, line)
    named = dict(_split_argument(part, tokens.line(index)) for part in parts[1:])
    form = next((named.pop(name) for name in [*named] if name.lower() == "format"), "")
    return Files(path, form.lower(), named, line, infers=True)


def _split_argument(part: str, line: int) -> tuple[str, str]:
    name, arrow, value = part.partition("=>")
    if not arrow:
        raise NotTaken(f"{part} has no name: name => value", line)
    return name.strip().strip("`'\""), unquote(value.strip())


def _map(part: str) -> dict[str, str]:
    """Read the options of ``map("a", "b", …)``."""
    texts = re.findall(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", part)
    values = list(map(unquote, texts))
    return dict(zip(values[::2], values[1::2], strict=False))
