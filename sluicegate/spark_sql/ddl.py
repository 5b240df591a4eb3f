"""Parser of Spark DDL column lists: ``device_id INT, readings ARRAY<STRUCT<at: TIMESTAMP, value: DOUBLE>>``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql.tokens import QuerySyntax, Tokens
from sluicegate.spark_sql.types import REFUSED, REFUSED_IN_WORDS

_SIMPLE = {
    "BOOLEAN", "TINYINT", "BYTE", "SMALLINT", "SHORT", "INT", "INTEGER", "BIGINT", "LONG", "FLOAT", "REAL", "DOUBLE",
    "DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "STRING", "BINARY", "VARIANT",
}  # fmt: skip
# Minimum and maximum count of the numbers in parentheses after a type.
_SIZED = {"DECIMAL": (0, 2), "DEC": (0, 2), "NUMERIC": (0, 2), "CHAR": (1, 1), "VARCHAR": (1, 1)}
_NESTED = {"ARRAY", "MAP", "STRUCT"}
TYPES = sorted(_SIMPLE | set(_SIZED) | _NESTED)
"""Names of all types that a column may have."""


class TypeUnknown(QuerySyntax):
    """Raised for an unknown type; ``nearest`` is the closest known name, or empty."""

    def __init__(self, name: str, line: int) -> None:
        super().__init__(f"unknown type {name}", line)
        self.nearest = next(iter(difflib.get_close_matches(name.upper(), TYPES, 1)), "")


def columns(text: str) -> dict[str, str]:
    """Parse a column list; types are kept as written.

    Raises:
        QuerySyntax: it is not a list of columns with types, or has a name twice.
    """
    return _Reader(Tokens(text)).columns()


def hints(text: str) -> dict[tuple[str, ...], str]:
    """Parse schema hints: types of columns and of nested fields, by path; ``element`` is the element of an array.

    Raises:
        QuerySyntax: it is not a list of names with types, has a name twice, or one that is nested in another.
    """
    return _Reader(Tokens(text)).hints()


def is_compared(kind: str) -> bool:
    """Return whether Spark can compare the values of a type: not maps, variants, or types that contain one.

    Args:
        kind: the type, as ``columns`` returns it.
    """
    tokens = Tokens(kind)
    for index in range(len(tokens)):
        # A field of a struct may be called so, and its type follows then.
        is_map = tokens.word(index) == "MAP" and tokens.is_type(index + 1, TokenType.LT)
        ends = index + 1 == len(tokens) or tokens.is_type(index + 1, TokenType.GT, TokenType.COMMA)
        if is_map or (tokens.word(index) == "VARIANT" and (ends or tokens.word(index + 1) in ("NOT", "COMMENT"))):
            return False
    return True


class _Reader:
    """Recursive-descent parser; each method leaves ``at`` after what it has consumed."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.at = 0

    def columns(self) -> dict[str, str]:
        types: dict[str, str] = {}
        for path, kind in self._list(dotted=False):
            self._demand_new(path[0], types)
            types[path[0]] = kind
        return types

    def hints(self) -> dict[tuple[str, ...], str]:
        types: dict[tuple[str, ...], str] = {}
        for path, kind in self._list(dotted=True):
            lower = tuple(name.lower() for name in path)
            for other in types:
                shared = min(len(path), len(other))
                if lower[:shared] == tuple(name.lower() for name in other)[:shared]:
                    same = len(path) == len(other)
                    raise self._error(
                        f"duplicate name {'.'.join(path)}" + ("" if same else f" (also in {'.'.join(other)})")
                    )
            types[path] = kind
        return types

    def _list(self, *, dotted: bool) -> Iterator[tuple[tuple[str, ...], str]]:
        if not len(self.tokens):
            raise QuerySyntax("expected a list of columns such as device_id INT, time DOUBLE", 1)
        while True:
            path = [self._name()]
            while self.tokens.is_type(self.at, TokenType.DOT):
                if not dotted:
                    name = path[0]
                    raise self._error(
                        f"nested fields of {name} cannot be declared alone: declare the whole column, {name} STRUCT<…>"
                    )
                self.at += 1
                path.append(self._name())
            if self._word() == ":":
                self.at += 1
            start = self.at
            self._type(".".join(path))
            yield tuple(path), self.tokens.compose([], start, self.at, compact=True)
            if self.at == len(self.tokens):
                return
            self._comma(".".join(path))

    def _comma(self, name: str) -> None:
        word = self._word()
        if word in ("NOT", "NULL", "COMMENT", "DEFAULT", "GENERATED"):
            message = f"unexpected {word} after the type of {name}: a column is a name and a type here"
            raise self._error(message + (", use an expectation for NOT NULL" if word == "NOT" else ""))
        self._take(",", f"expected a comma after the type of {name}")

    def _name(self) -> str:
        if self.at >= len(self.tokens):
            raise self._error("expected a name after the last comma or dot")
        raw = self.tokens.raw(self.at)
        quoted = self.tokens.is_type(self.at, TokenType.IDENTIFIER)
        name = self.tokens.name(self.at)
        if not quoted and not name.isidentifier():
            raise self._error(f"{name} is not a name: put a name with other characters in backticks")
        if not name or REFUSED & set(name):
            raise self._error(f"{raw} is not a valid column name: Delta does not allow {REFUSED_IN_WORDS}")
        self.at += 1
        return name

    def _field(self, types: dict[str, str]) -> str:
        name = self._name()
        self._demand_new(name, types)
        if self._word() == ":":
            self.at += 1
        return name

    def _demand_new(self, name: str, types: dict[str, str]) -> None:
        if name.lower() in map(str.lower, types):
            raise self._error(f"duplicate name {name}")

    def _type(self, of: str) -> None:
        word = self._word()
        if not word or not word.replace("_", "").isalnum():
            raise self._error(f"{of} has no type")
        if word not in TYPES:
            raise TypeUnknown(self.tokens.raw(self.at), self.tokens.line(self.at))
        self.at += 1
        if word in _SIZED:
            self._size(word)
        elif word in _NESTED:
            self._nested_type(word)

    def _size(self, word: str) -> None:
        least, most = _SIZED[word]
        if self._word() != "(":
            if least:
                raise self._error(f"{word} needs a length, for example {word}(10)")
            return
        close = self.tokens.closing_index(self.at)
        numbers = [self.tokens.raw(i) for i in range(self.at + 1, close) if self.tokens.raw(i) != ","]
        if not all(number.isdigit() for number in numbers) or not 1 <= len(numbers) <= most:
            raise self._error(f"{word} takes " + ("a length" if least else "a precision of up to 38 and a scale"))
        if not least and (int(numbers[0]) > 38 or (numbers[1:] and int(numbers[1]) > int(numbers[0]))):
            raise self._error(f"{word} has a precision of at most 38, and a scale of at most its precision")
        self.at = close + 1

    def _nested_type(self, word: str) -> None:
        self._take("<", f"{word} needs its element types, for example " + _EXAMPLES[word])
        fields: dict[str, str] = {}
        while True:
            if word == "STRUCT":
                fields[self._field(fields)] = ""
            self._type(word)
            if self._word() != "," or word == "ARRAY" or (word == "MAP" and fields):
                break
            if word == "MAP":
                fields["key"] = ""
            self.at += 1
        if word == "MAP" and not fields:
            raise self._error("MAP needs two types, for example " + _EXAMPLES[word])
        self._take(">", f"unclosed {word}<…>")

    def _word(self) -> str:
        if self.at < len(self.tokens):
            return self.tokens.raw(self.at).upper()
        return ""

    def _take(self, sign: str, otherwise: str) -> None:
        if self._word() != sign:
            present = ""
            if self.at < len(self.tokens):
                present = f", got {self.tokens.raw(self.at)}"
            raise self._error(otherwise + present)
        self.at += 1

    def _error(self, message: str) -> QuerySyntax:
        return QuerySyntax(message, self.tokens.line(self.at))


_EXAMPLES = {"ARRAY": "ARRAY<DOUBLE>", "MAP": "MAP<STRING, DOUBLE>", "STRUCT": "STRUCT<at: TIMESTAMP, value: DOUBLE>"}
