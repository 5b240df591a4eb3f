"""Parser of a SQL source of Delta Live Tables, by its tokens. Nothing of it is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

from sqlglot.tokenizer_core import TokenType

from sluicegate.spark_sql.tokens import QuerySyntax, Tokens
from sluicegate.tools.migrate.model import Action, ChangeFlow, Dataset, ParsedSource, Rule
from sluicegate.tools.migrate.queries import ConvertedQuery, NotTaken, address, convert_query, last_name, unquote
from sluicegate.tools.migrate.settings_of_source import SourceSettings, missing_setting
from sluicegate.tools.migrate.sql_statements import MODIFIERS, split_statements, title_of
from sluicegate.tools.scaffold.naming import ident

_ACTIONS: dict[tuple[str, ...], Action] = {
    ("ON", "VIOLATION", "DROP", "ROW"): "expect_or_drop", ("ON", "VIOLATION", "FAIL", "UPDATE"): "expect_or_fail",
}  # fmt: skip

# Words that begin a part of a statement behind a dataset's columns, and how many more words belong to the beginning.
_CLAUSES = {
    "COMMENT", "PARTITIONED", "CLUSTER", "TBLPROPERTIES", "USING", "LOCATION", "SCHEDULE", "REFRESH", "WITH", "OPTIONS",
    "TRIGGER", "DEFAULT", "FLOW", "AS", "ROW",
}  # fmt: skip

# Clauses that say how a table is stored or refreshed, and nothing of its rows.
_STORAGE = {
    "PARTITIONED", "CLUSTER", "TBLPROPERTIES", "USING", "LOCATION", "SCHEDULE", "REFRESH", "OPTIONS", "TRIGGER",
}  # fmt: skip

_OF_COLUMN = ("NOT", "COMMENT", "GENERATED", "DEFAULT", "MASK", "CONSTRAINT", "PRIMARY")

# How statements begin that leave the rows of all tables as they are, and who reads them.
_READING = re.compile(
    r"(SELECT|SHOW|DESC|DESCRIBE|EXPLAIN|OPTIMIZE|VACUUM|ANALYZE|"
    r"SET(?!\s+(TIME|ANSI_MODE|LEGACY_TIME|VAR|spark)))\b",
    re.IGNORECASE,
)

_KEY = "readers of the table may rely on it, and nothing checks it here: write keys, or a rule"


def read(text: str, file: str, settings: SourceSettings) -> ParsedSource:
    """Read a SQL source.

    Args:
        text: the source.
        file: its name, for messages.
        settings: values of ``${name}``.

    Raises:
        UserError: it cannot be split into statements.
    """
    source = ParsedSource()
    text = settings.fill_references(text)
    for line, statement in split_statements(text, file):
        try:
            tokens = Tokens(statement)
            if len(tokens):
                if (name := missing_setting(tokens.compose([]))) is not None:
                    raise NotTaken(f"the setting {name} has no value: set it with --set {name}=…")
                _Statement(tokens, line - 1, source).read()
        except (QuerySyntax, NotTaken, IndexError) as error:
            message = getattr(error, "message", "") or "unexpected end"
            source.leave(line + getattr(error, "line", 1) - 1, title_of(statement), message)
    for name, declared_line in _declared_names(text):
        source.declared.setdefault(name, declared_line)
    return source


def _declared_names(text: str) -> Iterator[tuple[str, int]]:
    """Yield the names of all tables and views that a text declares, each with its line."""
    try:
        tokens = Tokens(text)
    except QuerySyntax:
        return
    for index in range(len(tokens)):
        if tokens.word(index) != "CREATE":
            continue
        index += 1
        while tokens.word(index) in MODIFIERS:
            index += 1
        if tokens.word(index) in ("TABLE", "VIEW") and index + 1 < len(tokens):
            statement = _Statement(tokens, 0, ParsedSource())
            statement.at = index + 1 + 3 * ([tokens.word(index + n) for n in (1, 2, 3)] == ["IF", "NOT", "EXISTS"])
            with suppress(NotTaken):  # an unfinished name: whoever reads the statement says so
                yield statement._name(), tokens.line(index)


class _Statement:
    """Parser of one statement, left to right: ``at`` is the next token."""

    def __init__(self, tokens: Tokens, lines_before: int, source: ParsedSource) -> None:
        self.tokens, self.before, self.source = tokens, lines_before, source
        self.at = 0
        self.not_null: list[Rule] = []

    def read(self) -> None:
        if self._take_words("APPLY", "CHANGES", "INTO") or self._take_words("AUTO", "CDC", "INTO"):
            self._changes(self._name())
        elif self._take_words("CREATE", "FLOW"):
            self._flow()
        elif self._take_words("CREATE"):
            self._create()
        elif self._take_words("INSERT", "INTO"):
            line = self._line(0)
            self.source.unnamed[f"the INSERT of line {line} into {self._name()}"] = line
            raise self._refusal("its rows are not in the table: let the files land in one folder, or UNION in gold")
        else:
            self._leave_statement()

    def _leave_statement(self) -> None:
        title = title_of(self._text(0, len(self.tokens)))
        reason = "not a statement that declares a table: a definition only contains tables"
        self.source.leave(self._line(), title, reason, changes_meaning=_READING.match(title) is None)

    # --- words -------------------------------------------------------------------------------------------------------

    def _word(self, ahead: int = 0) -> str:
        return self.tokens.word(self.at + ahead)

    def _first_word(self, index: int) -> str:
        """Return the first word of a token: some, as PRIMARY KEY and PARTITIONED BY, have two."""
        return self.tokens.word(index).partition(" ")[0]

    def _take_words(self, *words: str) -> bool:
        if any(self._word(n) != word for n, word in enumerate(words)):
            return False
        self.at += len(words)
        return True

    def _line(self, index: int | None = None) -> int:
        return self.before + self.tokens.line(min(self.at if index is None else index, len(self.tokens) - 1))

    def _refusal(self, reason: str) -> NotTaken:
        return NotTaken(reason, self._line() - self.before)

    def _name(self) -> str:
        """Read a name with its catalog and schema, if it has them."""
        if self.at >= len(self.tokens):
            raise self._refusal("expected a name")
        parts = [self.tokens.name(self.at)]
        self.at += 1
        while self.tokens.is_type(self.at, TokenType.DOT):
            if self.at + 1 >= len(self.tokens):
                raise self._refusal("expected a part of a name")
            parts.append(self.tokens.name(self.at + 1))
            self.at += 2
        return address(parts)

    def _take_parentheses(self) -> tuple[int, int]:
        """Move past the next parentheses, and return the token range inside them."""
        if not self.tokens.is_type(self.at, TokenType.L_PAREN):
            raise self._refusal("expected a parenthesis")
        first, end = self.at + 1, self.tokens.closing_index(self.at)
        self.at = end + 1
        return first, end

    def _items(self, first: int, end: int) -> list[tuple[int, int]]:
        """Split a token range at its commas."""
        commas = [i for i in self.tokens.top_level(first, end) if self.tokens.is_type(i, TokenType.COMMA)]
        begins, ends = [first, *(comma + 1 for comma in commas)], [*commas, end]
        return [(begin, stop) for begin, stop in zip(begins, ends, strict=True) if begin < stop]

    def _names(self) -> list[str]:
        first, end = self._take_parentheses()
        return [self._column_name(self._text(begin, stop)) for begin, stop in self._items(first, end)]

    def _text(self, first: int, end: int) -> str:
        return self.tokens.compose([], first, end, compact=True)

    # --- CREATE ------------------------------------------------------------------------------------------------------

    def _create(self) -> None:
        line = self._line(0)
        words = []
        while self._word() in MODIFIERS:
            words.append(self._word())
            self.at += 1
        noun = self._word()
        if noun not in ("TABLE", "VIEW"):
            raise self._refusal(f"CREATE {noun or self.tokens.raw(self.at)} does not declare a table")
        self.at += 1
        self._take_words("IF", "NOT", "EXISTS")
        view = noun == "VIEW" and "MATERIALIZED" not in words
        dataset = Dataset(self._name(), line, "view" if view else "materialized")
        self.source.declared.setdefault(dataset.name, line)
        if not view and ("STREAMING" in words or "INCREMENTAL" in words):
            dataset.kind = "streaming"
        if self.tokens.is_type(self.at, TokenType.L_PAREN):
            self._columns(dataset)
        query = self._clauses(dataset)
        if query is not None:
            converted = self._query(query)
            dataset.query, dataset.files, dataset.query_line = converted.query, converted.files, self._line(query)
        elif dataset.kind != "streaming":
            raise self._refusal(f"{dataset.name} has no query")
        self._keep_not_null(dataset)
        if self.source.find_dataset(dataset.name):
            self.source.unnamed[f"{dataset.name}, declared again"] = line
            self.source.twice.add(dataset.name)
            raise self._refusal(f"duplicate dataset {dataset.name}")
        self.source.datasets.append(dataset)

    def _query(self, first: int, *, only_table: bool = False) -> ConvertedQuery:
        """Convert the query that begins at a token."""
        converted = convert_query(self.tokens, first, self.before, only_table=only_table)
        self.source.remarks += converted.remarks
        return converted

    def _columns(self, dataset: Dataset) -> None:
        typed = []
        for first, end in self._items(*self._take_parentheses()):
            if self.tokens.word(first) == "CONSTRAINT":
                self._constraint(dataset, first, end)
            elif self._first_word(first) in ("PRIMARY", "FOREIGN"):
                self.source.leave(self._line(first), self._text(first, end), _KEY)
            else:
                typed += self._column(dataset, first, end)
        dataset.schema = ", ".join(typed)

    def _column(self, dataset: Dataset, first: int, end: int) -> list[str]:
        begins = [i for i in self.tokens.top_level(first, end) if self._first_word(i) in _OF_COLUMN and i > first]
        stop = [*begins, end][0]
        for begin, clause_end in pairwise([*begins, end]):
            self._column_clause(dataset, self.tokens.name(first), begin, clause_end)
        if self.tokens.name(first).lower() == "_rescued_data":
            return []  # bronze always has it
        if stop == first + 1:
            reason = f"no column is renamed to it, and it has no type: write AS {self._text(first, stop)} in the query"
            self.source.leave(self._line(first), f"{dataset.name}.{self.tokens.name(first)}", reason)
            return []
        return [self._text(first, stop)]

    def _column_clause(self, dataset: Dataset, column: str, first: int, end: int) -> None:
        """Read what follows the type of a column."""
        word, subject = self._first_word(first), f"{self._text(first, end)} of {dataset.name}.{column}"
        if word == "NOT":
            condition = f"{ident(column)} IS NOT NULL"
            self.not_null.append(Rule(f"not_null_{column}", condition, "expect_or_fail", self._line(first)))
        elif word == "COMMENT":
            self.source.leave_harmless(self._line(first), subject, "write it under column_comments")
        elif word in ("PRIMARY", "CONSTRAINT"):
            self.source.leave(self._line(first), subject, _KEY)
        else:
            self.source.leave(self._line(first), subject, "only names and types of columns are imported")

    def _keep_not_null(self, dataset: Dataset) -> None:
        """Keep each NOT NULL as a rule that stops the run, as in the source; a rule of the source may do so already."""
        conditions = {
            " ".join(rule.condition.replace("`", "").lower().split())
            for rule in dataset.rules
            if rule.action != "expect"
        }
        for rule in self.not_null:
            if dataset.query is None and dataset.files is None:
                reason = "a table that flows fill has no such rule: write one for what they read"
                self.source.leave(rule.line, f"NOT NULL of {dataset.name}: {rule.condition}", reason)
            elif rule.condition.replace("`", "").lower() not in conditions:
                dataset.rules.append(rule)

    def _constraint(self, dataset: Dataset, first: int, end: int) -> None:
        name, line = self.tokens.name(first + 1), self._line(first)
        if self.tokens.word(first + 2) != "EXPECT":
            self.source.leave(line, self._text(first, end), _KEY)
            return
        close = self.tokens.closing_index(first + 3)
        behind = tuple(map(self.tokens.word, range(close + 1, end)))
        action = _ACTIONS.get(behind)
        if behind and action is None:
            reason = "rows that break it are kept and counted"
            self.source.leave(line, f"{self._text(close + 1, end)} of {name}", reason)
        condition = self._text(first + 4, close)
        dataset.rules.append(Rule(name, condition, action or "expect", line))

    def _clauses(self, dataset: Dataset) -> int | None:
        """Read the clauses between the columns and the query, and return the query's first token, if there is one."""
        while self.at < len(self.tokens):
            if self._take_words("AS"):
                if self.at < len(self.tokens):
                    return self.at
                return None
            if self._word() == "SELECT" or (self._word() == "WITH" and self._word(2) == "AS"):
                return self.at
            if self._take_words("COMMENT"):
                dataset.comment = unquote(self.tokens.raw(self.at))
                self.at += 1
            elif self._take_words("FLOW", "AUTO", "CDC"):
                self._changes(dataset.name)
            else:
                self._leave_clause(dataset)
        return None

    def _leave_clause(self, dataset: Dataset) -> None:
        first = self.at
        self.at += 1
        self._take_words("ROW")
        while self.at < len(self.tokens) and self._word() not in (*_CLAUSES, "SELECT"):
            if self.tokens.is_type(self.at, TokenType.L_PAREN):
                self.at = self.tokens.closing_index(self.at)
            self.at += 1
        message = f"{self._text(first, self.at)} of {dataset.name}"
        if self._first_word(first) in _STORAGE:
            reason = "ignored, there is no equivalent (see maintenance and database)"
            self.source.leave_harmless(self._line(first), message, reason)
            return
        self.source.leave(self._line(first), message, "there is no equivalent")

    # --- changes -----------------------------------------------------------------------------------------------------

    def _flow(self) -> None:
        name = self._name()
        if self._take_words("COMMENT"):
            self.at += 1
        if self._take_words("AS", "AUTO", "CDC", "INTO") or self._take_words("AS", "APPLY", "CHANGES", "INTO"):
            self._changes(self._name())
            return
        line = self._line(0)
        if not self._take_words("AS", "INSERT", "INTO"):
            raise self._refusal(f"the flow {name} neither inserts rows nor applies changes")
        once = self._take_words("ONCE")
        into = self._name()
        missing_as = f"the flow {name} into {into}"
        self.source.unnamed[missing_as] = line
        if not self._take_words("BY", "NAME"):
            raise self._refusal("flows match columns by name: write BY NAME")
        if once:
            reason = "it becomes an ordinary flow, which also reads what its source gets later"
            self.source.leave(line, f"ONCE of the flow {name}", reason)
        converted = self._query(self.at)
        dataset = Dataset.from_flow(last_name(name), into, line, missing_as)
        dataset.query, dataset.files, dataset.query_line = converted.query, converted.files, self._line()
        self.source.datasets.append(dataset)

    def _changes(self, target: str) -> None:
        line = self._line(0)
        if not self._take_words("FROM"):
            raise self._refusal("AUTO CDC needs FROM (snapshots: write apply_changes_from_snapshot)")
        converted = self._query(self.at, only_table=True)
        self.at = converted.end
        if converted.files is not None:
            raise self._refusal("AUTO CDC must read a table: declare one for the files")
        fields: dict[str, object] = {}
        while self.at < len(self.tokens):
            self._change(target, fields)
        if not {"keys", "sequence_by"} <= fields.keys():
            raise self._refusal("AUTO CDC requires KEYS (…) and SEQUENCE BY a column")
        source = re.sub(r"^STREAM\((.*)\)$", r"\1", converted.query or "").replace("`", "").lower()
        self.source.changes.append(ChangeFlow(target, source, fields, line))

    def _change(self, target: str, fields: dict[str, object]) -> None:
        """Read one clause of AUTO CDC."""
        if self._take_words("KEYS"):
            fields["keys"] = self._names()
        elif self._take_words("IGNORE", "NULL", "UPDATES"):
            fields["ignore_null_updates"] = True
        elif self._take_words("APPLY", "AS", "DELETE", "WHEN"):
            fields["apply_as_deletes"] = self._until_clause()
        elif self._take_words("APPLY", "AS", "TRUNCATE", "WHEN"):
            message = f"APPLY AS TRUNCATE WHEN {self._until_clause()} of {target}"
            self.source.leave(self._line(self.at - 1), message, "not supported: replace the files, or delete the rows")
        elif self._take_words("SEQUENCE", "BY"):
            sequence = self._until_clause()
            if not re.fullmatch(r"[\w.`]+", sequence):
                raise self._refusal(f"SEQUENCE BY {sequence} is not a column: compute it in an earlier table")
            fields["sequence_by"] = self._column_name(sequence)
        elif self._take_words("COLUMNS"):
            self._read_column_list(fields, "column_list", "except_column_list")
        elif self._take_words("STORED", "AS", "SCD", "TYPE"):
            fields["stored_as_scd_type"] = self._scd_type()
        elif self._take_words("TRACK", "HISTORY", "ON"):
            self._read_column_list(fields, "track_history_column_list", "track_history_except_column_list")
        else:
            raise self._refusal(f"{self.tokens.raw(self.at)} is not supported in AUTO CDC")

    def _column_name(self, text: str) -> str:
        """Return the name of a column of the changes without backticks, and refuse a field of a column."""
        if "." in text:
            raise self._refusal(f"{text} is a field of a column: make it a column in an earlier table")
        return text.strip("` ")

    def _scd_type(self) -> int:
        if (kind := self.tokens.raw(self.at)) not in ("1", "2"):
            raise self._refusal(f"SCD TYPE {kind} is neither 1 nor 2")
        self.at += 1
        return int(kind)

    def _read_column_list(self, fields: dict[str, object], chosen: str, except_field: str) -> None:
        if self.tokens.raw(self.at) == "*":
            self.at += 1
            if self._take_words("EXCEPT"):
                fields[except_field] = self._names()
        elif self.tokens.is_type(self.at, TokenType.L_PAREN):
            fields[chosen] = self._names()
        else:
            fields[chosen] = list(map(self._column_name, self._until_clause().split(",")))

    def _until_clause(self) -> str:
        """Return the text up to the next clause of AUTO CDC."""
        first = self.at
        ends = {"KEYS", "IGNORE", "APPLY", "SEQUENCE", "COLUMNS", "STORED", "TRACK"}
        while self.at < len(self.tokens) and (self._word() not in ends or self.at == first):
            if self.tokens.is_type(self.at, TokenType.L_PAREN):
                self.at = self.tokens.closing_index(self.at)
            self.at += 1
        return self._text(first, self.at)
