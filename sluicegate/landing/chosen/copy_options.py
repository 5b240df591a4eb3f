"""COPY INTO options: overrides of the table's definition for the files of one copy.

They are recorded in the ledger commit that enters the files: a later run that resumes a killed copy must read its
files with the copy's options.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, get_args

from deltalake import DeltaTable
from pydantic import ValidationError

from sluicegate.definition import BronzeTable
from sluicegate.definition.fields import suggest_or_list
from sluicegate.definition.tables import reader_options
from sluicegate.errors import QueryError, UserError, Where
from sluicegate.lake import log
from sluicegate.landing.chosen.copy_select import SOURCE, Select, names_fault
from sluicegate.spark_sql.tokens import QuerySyntax

FORMATS: list[reader_options.Format] = [
    file_format for file_format in get_args(reader_options.Format) if file_format not in ("delta", "kafka")
]


@dataclass(frozen=True)
class CopyOptions:
    """Reader options, SELECT and column names of a copy.

    Attributes:
        select: a SELECT over the files' fields (see copy_select.py); None: all fields, as they are called.
        columns: names of the columns in order; empty: the files' own names.
        format: format of the files; None: that of the definition.
        options: Spark reader options, merged over those of the definition; with another format they replace them.
        dialect: dialect of CSV files; None: that of the definition, or RFC 4180 with another format than its.
        merge_schema: whether new columns are added to the table or are an error; None: as the definition says.
        fields: schema of the files of a copy with a SELECT, as Spark's JSON, so that all ledger batches are read
            alike. Not a user option: the copy infers it before it is entered.
    """

    select: str | None = None
    columns: tuple[str, ...] = ()
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    merge_schema: bool | None = None
    fields: str | None = None
    dialect: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """Overrides as recorded in the ledger's commit; empty if there are none."""
        return {key: value for key, value in asdict(self).items() if value not in (None, (), {})}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> CopyOptions:
        """Return options from recorded ``facts``."""
        return cls(**{**facts, "columns": tuple(facts.get("columns", ()))})

    def pin_format(self, effective: BronzeTable) -> CopyOptions:
        """Return the options with the format pinned, so that later changes of the definition do not matter."""
        if not self._reads_otherwise:
            return self
        dialect = None
        if effective.format == "csv":
            dialect = effective.dialect
        return replace(self, format=effective.format, options=effective.options, dialect=dialect)

    @property
    def _reads_otherwise(self) -> bool:
        """Whether it overrides how the definition says that files are read."""
        return self.format is not None or bool(self.options) or self.dialect is not None

    @property
    def selects(self) -> bool:
        """Whether the copy has a SELECT or column names of its own."""
        return self.select is not None or bool(self.columns)

    @property
    def query(self) -> Select:
        """The parsed SELECT; ``SELECT *`` if there is none.

        Raises:
            QueryError: a copy does not accept this SELECT.
        """
        try:
            return Select.parse(self.select or f"SELECT * FROM {SOURCE}")
        except QuerySyntax as error:
            raise QueryError(
                f"the SELECT of the copy cannot be used: {error.message}",
                where=Where(line=error.line),
                hint=f"select expressions over the fields, for example SELECT CAST(a AS INT) AS id FROM {SOURCE}",
            ) from None

    def table(self, name: str, table: BronzeTable) -> BronzeTable:
        """Return the table's definition with the overrides of this copy.

        Raises:
            UserError: a copy does not accept the format, options, columns or SELECT.
        """
        if not table.reads_files:
            source = "Kafka"
            if table.kafka is None:
                source = "a Delta table"
            raise UserError(
                f"{name} reads {source}: files cannot be copied into it",
                where=Where(table=name),
                hint="define a separate bronze table for them",
            )
        effective = table.model_copy(update=self._overrides(name, table))
        if self.select is None:
            self._check_columns(name, effective)
            names = self.columns
        else:
            names = self._names_of_select(name)
        fault = names_fault(names)
        if fault:
            raise UserError(f"the columns of the copy cannot be used: {fault}", where=Where(table=name))
        return effective

    def _names_of_select(self, name: str) -> tuple[str, ...]:
        """Return names of the columns that the SELECT makes, as far as they do not depend on the files."""
        outputs = self.query.outputs
        named = [output.name for output in outputs if not output.is_star]
        if self.columns and len(named) == len(outputs) != len(self.columns):
            message = f"the SELECT returns {len(outputs)} columns, but --columns lists {len(self.columns)}"
            raise UserError(message, where=Where(table=name))
        return self.columns or tuple(named)

    def _check_columns(self, name: str, effective: BronzeTable) -> None:
        """Refuse column names by position for files whose fields have names."""
        if not self.columns:
            return
        if effective.format != "csv" or effective.has_option("header"):
            raise UserError(
                "--columns requires CSV files without a header",
                where=Where(table=name),
                hint=f'these files name their fields: use --select "SELECT a AS b FROM {SOURCE}"',
            )

    def _overrides(self, name: str, table: BronzeTable) -> dict[str, Any]:
        """Return definition fields that the copy overrides."""
        overrides: dict[str, Any] = {}
        if self.merge_schema is not None:
            overrides["schemaEvolutionMode"] = "addNewColumns" if self.merge_schema else "failOnNewColumns"
        form = self._file_format(name, table)
        if not self._reads_otherwise:
            return overrides
        same_format = form == table.format
        options = self._merge_options(table.options if same_format else {})
        for option, value in options.items():
            problem = reader_options.check_option(form, option, value)
            if problem:
                raise UserError(problem.message, where=Where(table=name), hint=problem.hint)
        self._validate(name, {"path": table.path, "format": form, "options": options})
        dialect = self.dialect or (table.dialect if same_format else "rfc4180")
        overrides |= {"format": form, "options": options, "dialect": dialect}
        if not same_format:
            overrides["pathGlobFilter"] = None  # the definition's is about files of the definition's format
        return overrides

    def _file_format(self, name: str, table: BronzeTable) -> reader_options.Format:
        """Return the format of the files: that of the copy, or else of the definition."""
        for form in FORMATS:
            if form == (self.format or table.format):
                return form
        hint = suggest_or_list(self.format or "", FORMATS, "formats:")
        raise UserError(f"unsupported format {self.format}", where=Where(table=name), hint=hint)

    def _merge_options(self, defined: Mapping[str, str]) -> dict[str, str]:
        """Return options of the definition, and those of the copy in their place, whatever their case."""
        overridden = {option.lower() for option in self.options}
        return {o: v for o, v in defined.items() if o.lower() not in overridden} | dict(self.options)

    def _validate(self, name: str, fields: dict[str, Any]) -> None:
        """Refuse options that the definition of a bronze table could not have."""
        if self.dialect:
            fields["dialect"] = self.dialect
        try:
            BronzeTable.model_validate(fields)
        except ValidationError as error:
            mistake = error.errors()[0]
            message = mistake.get("ctx", {}).get("message") or mistake["msg"]
            raise UserError(str(message), where=Where(table=name)) from None


def options_by_batch(ledger: DeltaTable | None, chunks: Iterable[int]) -> dict[int, CopyOptions]:
    """COPY INTO options recorded per ledger batch; batches without options are left out."""
    batches = set(chunks)
    if ledger is None or not batches:
        return {}
    behind = ledger.version() - min(batches) + 1
    facts_of_commits = {commit.version: commit.info.ledger.copy for commit in log.commits(ledger, behind)}
    return {chunk: CopyOptions.from_facts(facts) for chunk in batches if (facts := facts_of_commits.get(chunk))}
