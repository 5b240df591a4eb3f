"""Decode files of any encoding into UTF-8 copies, and find records with undecodable bytes.

Spark splits files into lines by UTF-8 bytes and silently replaces undecodable ones by U+FFFD. So files in other
encodings are decoded before Spark reads them, and so are UTF-8 files with such bytes. If each line is a record, lines
with such a byte go to a file beside the copy, as hexadecimal digits of their text, in which the byte is ``\\xfc``. If
records span lines, a sentinel that occurs in no value replaces the byte.

This runs on executors: it knows nothing of Spark.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from sluicegate.bronze import landed_paths
from sluicegate.bronze.file_sizes import UNPACKING, FileFault, blocks_of
from sluicegate.bronze.landed_paths import is_odd
from sluicegate.bronze.text import excerpts, undecodable
from sluicegate.bronze.text.csv_records import Grammar
from sluicegate.bronze.text.excerpts import NESTING
from sluicegate.bronze.text.json_elements import elements
from sluicegate.bronze.text.undecodable import FIRST, UNDECODED
from sluicegate.definition import encodings
from sluicegate.storage import filesystems

# Message of a job that has come across bytes that may be no text, or U+FFFD, which Spark writes for them, too.
UNSURE_OF_BYTES = "SLUICEGATE_UNSURE_OF_BYTES"

# Errors of a file that cannot be read or unpacked.
BROKEN = (OSError, EOFError, ValueError, LookupError, ImportError, *UNPACKING)

# Name of the error handler that puts lone surrogates in the place of such bytes.
HANDLER = "sluicegate_surrogates"

# Half of a surrogate pair alone, as JSON can write it: it is no character, and UTF-8 cannot have it.
SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)

# Deepest nesting of a JSON text that Spark's types and parsers take.
DEEPEST = 200

LINE_END = re.compile(r"\r\n|\n|\r")
BYTE_ORDERS = {"utf-16": ("utf-16-le", "utf-16-be"), "utf-32": ("utf-32-le", "utf-32-be")}
DECLARED = re.compile(rb"""^\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._:-]+)["']""")
DECLARATION = re.compile(r"""^(\s*<\?xml[^>]*?)\s+encoding\s*=\s*(?:"[^"]*"|'[^']*')""")
HEAD = 1024


class Decoding(NamedTuple):
    """Settings by which files are decoded.

    Attributes:
        encoding: Java's name of the encoding.
        form: format of the files.
        whole: whether records are read from whole files instead of lines.
        several: whether a record can have several lines.
        separator: line separator, if the definition sets one.
        header: whether the first line has the names of the columns.
        comment: first character of a comment line.
        folder: folder for the copies.
        sentinel: text that occurs in no value.
        renames: whether a file whose name Spark might take for a pattern gets a copy in any case.
        skipped: number of lines before the header or the first record, which are not read.
        options: options of Spark's reader by lower-case name.
        columns: normalized names of columns by which the header of CSV is known; none if there is no header.
        records: fields of a JSON file, each in the one before, of which the last has its records; none if it is a
            record or an array of them.
    """

    encoding: str
    form: str
    whole: bool
    several: bool
    separator: str
    header: bool
    comment: str
    folder: str
    sentinel: str
    renames: bool = False
    skipped: int = 0
    options: Mapping[str, str] = {}
    columns: Sequence[str] = ()
    records: Sequence[str] = ()

    @property
    def is_partial(self) -> bool:
        """Whether only a part of each file is read."""
        return bool(self.skipped or self.records)


class Decoder(Protocol):
    """Incremental decoder."""

    def decode(self, data: bytes, final: bool = False) -> str:
        """Decode the next bytes."""


class SingleByteDecoder:
    """Incremental decoder of an encoding with one byte a character."""

    def __init__(self, characters: str, errors: str) -> None:
        self._characters, self._errors = characters, errors

    def decode(self, data: bytes, final: bool = False) -> str:
        """Decode the next bytes."""
        text: str = codecs.charmap_decode(data, self._errors, self._characters)[0]
        return text


def _as_surrogates(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "".join(chr(FIRST + byte) for byte in error.object[error.start : error.end]), error.end


codecs.register_error(HANDLER, _as_surrogates)


def decoder(encoding: str, head: bytes, errors: str = "strict") -> Decoder:
    """Return the incremental decoder of files in an encoding.

    Args:
        encoding: Java's name of the encoding.
        head: first bytes of the file, which show the byte order of UTF-16 and UTF-32.
        errors: Python's name of the handling of undecodable bytes.
    """
    found = encodings.find(encoding) or encodings.UTF_8
    if found.characters:
        return SingleByteDecoder(found.characters, errors)
    codec = found.codec
    if found.codec in BYTE_ORDERS:
        codec = byte_order(found.codec, head)
    return codecs.getincrementaldecoder(codec)(errors)


def byte_order(codec: str, head: bytes) -> str:
    """Return the UTF-16 or UTF-32 codec of a text: by its byte order mark, else by its ASCII characters.

    Without both it is big-endian, as in Java and RFC 2781.
    """
    little, big = BYTE_ORDERS[codec]
    for order in (little, big):
        if head.startswith("\ufeff".encode(order)):
            return order
    size = len("a".encode(little))
    ascii_in = {
        order: sum(character < "\x80" for character in head[: len(head) // size * size].decode(order, "replace"))
        for order in (big, little)
    }
    return max(ascii_in, key=lambda order: ascii_in[order])


def decode(path: str, *given: Any) -> dict[str, Any]:
    """Decode a file; ``given`` is a ``Decoding``.

    ``error`` if the file cannot be read. Otherwise ``copy``, the path of a copy, if it has to be read from one;
    ``bad``, a file of the records with undecodable bytes, if there are any; ``sentinels``, whether the copy has any;
    ``size`` of the copy, and ``time``, that of the file in microseconds.
    """
    how = Decoding(*given)
    try:
        about = filesystems.file_facts(path)
        micros = 0
        if about is not None:
            micros = round(about[1].timestamp() * 1_000_000) // 1000 * 1000
        encoding = _encoding(path, how)
        copy = _Copy(path, how, encoding)
        copied = how.is_partial or landed_paths.is_packed(path) or (how.renames and is_odd(path))
        if encoding == "UTF-8" and not copied and copy.is_needless():
            return {"copy": None, "bad": None, "sentinels": False, "size": 0, "time": micros}
        return {**copy.write(), "time": micros}
    except FileFault as error:
        return {"error": str(error)}
    except BROKEN as error:
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}


def _encoding(path: str, how: Decoding) -> str:
    """Return the encoding of a file: the definition's, unless an XML file declares another.

    Without an encoding in the definition, that of JSON is detected from its start: RFC 4627, section 3.
    """
    with filesystems.reader(path) as file:
        head = next(blocks_of(file, path), b"")[:HEAD]
    if how.form == "xml":
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "UTF-16"
        declared = DECLARED.match(head.removeprefix(codecs.BOM_UTF8))
        if declared and (named := encodings.find(declared[1].decode())) and named.is_readable:
            return named.name
        return how.encoding
    if how.form == "json" and how.encoding == "UTF-8" and b"\0" in head[:4]:
        if re.match(rb"\0\0..|\xff\xfe\0\0|.\0\0\0", head, re.DOTALL):
            return "UTF-32"
        return "UTF-16"
    return how.encoding


def _has_lone_surrogate(text: str) -> bool:
    """Return whether JSON text has an escaped lone surrogate."""
    if SURROGATE.search(text) is None:
        return False
    high = -1  # where the pair of the last first half has to go on
    for escape in ESCAPE.finditer(text):
        unit = int(escape[1] or "0", 16)
        if 0xDC00 <= unit <= 0xDFFF and escape.start() == high:
            high = -1
            continue
        if high >= 0 or 0xDC00 <= unit <= 0xDFFF:
            return True
        high = -1
        if 0xD800 <= unit <= 0xDBFF:
            high = escape.end()
    return high >= 0


def _is_too_deep(text: str) -> bool:
    """Return whether JSON text is nested deeper than Spark can read."""
    if text.count("{") + text.count("[") <= DEEPEST:
        return False
    depth = 0
    for token in NESTING.finditer(text):
        depth += (token[0] in "{[") - (token[0] in "}]")
        if depth > DEEPEST:
            return True
    return False


class _Copy:
    """UTF-8 copy of one file, and the file of its bad records."""

    def __init__(self, path: str, how: Decoding, encoding: str) -> None:
        self.path, self.how, self.encoding = path, how, encoding
        self.copy = f"{how.folder}/{hashlib.sha256(path.encode()).hexdigest()}"
        self.bad = f"{self.copy}.bad"
        self.counts = {"good": 0, "bad": 0, "sentinels": 0}
        self.begun = not how.header
        self.first, self.line = "", 1

    def is_needless(self) -> bool:
        """Return whether a UTF-8 file needs no copy, as nothing in it is bad."""
        return not any(map(self._is_odd, self._whole_lines(self._texts())))

    def write(self) -> dict[str, Any]:
        """Write the copy and the bad records, where there is something to write."""
        fs, root = filesystems.open_store(self.copy)
        with suppress(FileExistsError):
            fs.makedirs(fs._parent(root), exist_ok=True)
        with fs.open(root, "wb") as good, fs.open(f"{root}.bad", "wb") as bad:
            for text, lines in self._parts():
                data = text.encode()
                self.counts["good"] += len(data)
                good.write(data)
                for line in lines:
                    self.counts["bad"] += 1
                    bad.write(line.encode().hex().encode() + b"\n")
        return {
            "copy": self.copy, "bad": self.bad if self.counts["bad"] else None,
            "sentinels": bool(self.counts["sentinels"]), "size": self.counts["good"], "first": self.first,
        }  # fmt: skip

    def _parts(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the good text in parts, each with its bad records."""
        if self.how.whole:
            yield self._clean_record(self._records("".join(self._texts())))
        elif self.how.several:
            yield from ((self._insert_sentinels(text), []) for text in self._texts())
        else:
            yield from map(self._clean_lines, self._whole_lines(self._texts()))

    def _records(self, text: str) -> str:
        """Return the part of a whole file that has its records."""
        if not self.how.records:
            return text
        start, end = excerpts.json_extent(text, self.how.records)
        # With as many lines above it, so that reports name the file's own lines.
        return "\n" * text.count("\n", 0, start) + text[start:end]

    def _texts(self) -> Iterator[str]:
        """Yield the decoded text that is read, block by block."""
        if not self.how.skipped:
            return self._decoded_texts()
        self.line += self.how.skipped
        grammar = Grammar.from_options(self.how.options)
        return excerpts.skip_lines(self._decoded_texts(), self.how.skipped, grammar, self.how.columns)

    def _decoded_texts(self) -> Iterator[str]:
        """Yield the decoded text, block by block, without a byte order mark."""
        with filesystems.reader(self.path) as file:
            blocks = blocks_of(file, self.path)
            head = next(blocks, b"")
            decoding = decoder(self.encoding, head[: 4 * HEAD], HANDLER)
            text = decoding.decode(head).removeprefix("\ufeff")
            yield DECLARATION.sub(r"\1", text) if self.how.form == "xml" else text
            for block in blocks:
                yield decoding.decode(block)
            yield decoding.decode(b"", True)

    def _whole_lines(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield the text in parts of whole lines."""
        rest = ""
        for text in texts:
            rest += text
            end = self._end_of_lines(rest)
            if end:
                yield rest[:end]
                rest = rest[end:]
        if rest:
            yield rest

    def _end_of_lines(self, text: str) -> int:
        if separator := self.how.separator:
            return len(text) - len(text.rpartition(separator)[2])
        # A \r at the end may be the first half of a \r\n.
        return max(text.rfind("\n"), text.rfind("\r", 0, len(text) - 1)) + 1

    def _clean_lines(self, text: str) -> tuple[str, list[str]]:
        if self.begun and not self._is_odd(text):
            self.line += text.count(self.how.separator or "\n")
            return text, []
        good: list[str] = []
        bad: list[str] = []
        for line, end in _split_lines(text, self.how.separator):
            odd = self._is_odd(line)
            if odd and not self.begun:
                raise FileFault(f"its header has {self._fault(line)}")
            self.begun = self.begun or not self._comes_before_header(line)
            if odd:
                bad.append(self._format_bad_record(line))
            else:
                good.append(line + end)
            self.line += 1
        return "".join(good), bad

    def _comes_before_header(self, line: str) -> bool:
        return not line.strip() or bool(self.how.comment and line.startswith(self.how.comment))

    def _is_odd(self, text: str) -> bool:
        """Return whether a text has undecodable bytes or what no JSON reader accepts."""
        try:
            text.encode()
        except UnicodeEncodeError:
            return True
        if self.how.form != "json":
            return False
        values = [text]
        if not self.how.whole:
            values = text.split("\n")
        return _has_lone_surrogate(text) or any(map(_is_too_deep, values))

    def _clean_record(self, text: str) -> tuple[str, list[str]]:
        """Return the text of one record, or of an array of records, without what is bad."""
        if not self._is_odd(text):
            return text, []
        parts = []
        if self.how.form == "json":
            parts = elements(text)
        if not parts or not parts[0][1]:
            return "", [self._format_bad_record(text)]
        good: list[str] = []
        bad: list[str] = []
        for part, _ in parts:
            if self._is_odd(part):
                bad.append(self._format_bad_record(part))
            else:
                good.append(part)
        if not good:
            return "", bad
        # What is left of a damaged array is not closed, so that it is read as damaged.
        rest, is_element = parts[-1]
        end = ""
        if is_element or not rest or rest not in good:
            end = "]"
        return f"[{','.join(good)}{end}", bad

    def _insert_sentinels(self, text: str) -> str:
        """Replace each undecodable byte by a sentinel."""
        sentinel = self.how.sentinel
        shown, count = UNDECODED.subn(lambda found: f"{sentinel}{ord(found[0]) - FIRST:02x}z", text)
        self.counts["sentinels"] += count
        if count:
            self._format_bad_record(text)
        self.line += text.count("\n")
        return shown

    def _format_bad_record(self, text: str) -> str:
        """Format a bad record for people."""
        self.first = self.first or f"it has {self._fault(text)}"
        return UNDECODED.sub(lambda found: f"\\x{ord(found[0]) - FIRST:02x}", text)

    def _fault(self, text: str) -> str:
        """Return the fault of a text that begins in ``self.line``, without its values, which may be personal data."""
        byte = undecodable.first_undecodable(text, self.line)
        if byte is not None:
            return byte.reason(self.encoding)
        if _is_too_deep(text):
            return f"a JSON value in line {self.line} nested more than {DEEPEST} levels deep, which Spark cannot read"
        return f"half of a surrogate pair in line {self.line}, which is not a character"


def _split_lines(text: str, separator: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a text, each with its ending."""
    place = 0
    for end_of_line in re.finditer(re.escape(separator) if separator else LINE_END, text):
        yield text[place : end_of_line.start()], end_of_line[0]
        place = end_of_line.end()
    if text[place:]:
        yield text[place:], ""
