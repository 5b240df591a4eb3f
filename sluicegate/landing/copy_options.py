"""How the files of a copy are read where it is not as the table's definition says.

It is decided when the files are entered into the ledger, and kept in that commit: a copy that is killed goes on in any
later run, and that run must read its files as the copy said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

from pydantic import ValidationError

from sluicegate.definition import BronzeTable, reader_options
from sluicegate.definition.fields import nearest
from sluicegate.errors import QueryError, UserError, Where
from sluicegate.lake import log
from sluicegate.landing.copy_select import SOURCE, Select, names_fault
from sluicegate.sql.tokens import QuerySyntax

if TYPE_CHECKING:
    from deltalake import DeltaTable

FORMATS: list[reader_options.Format] = [form for form in get_args(reader_options.Format) if form != "delta"]

KEY = "copy"
"""Under which it stands among our facts in a commit of the ledger."""


@dataclass(frozen=True)
class CopyOptions:
    """What a copy says of how its files are read.

    Attributes:
        select: a SELECT over the files' fields (see copy_select.py); None: all fields, as they are called.
        columns: names of the columns in order; empty: their own.
        format: format of the files; None: that of the definition.
        options: options of Spark's reader, over those of the definition; with another format instead of them.
        merge_schema: whether new columns come into the table or are an error; None: as the definition says.
        fields: the fields that the files of a copy with a SELECT have, as JSON of Spark's, so that those of one chunk
            are read as those of another. Not said by people: the copy looks before it is on record.
    """

    select: str | None = None
    columns: tuple[str, ...] = ()
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    merge_schema: bool | None = None
    fields: str | None = None

    @property
    def facts(self) -> dict[str, Any]:
        """What differs from the definition, as the ledger keeps it; empty if nothing does."""
        return {key: value for key, value in asdict(self).items() if value not in (None, (), {})}

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> CopyOptions:
        """What ``facts`` gave."""
        return cls(**{**facts, "columns": tuple(facts.get("columns", ()))})

    def settled(self, effective: BronzeTable) -> CopyOptions:
        """The same with format and options as they are now, whatever becomes of the definition."""
        if self.format is None and not self.options:
            return self
        return replace(self, format=effective.format, options=effective.options)

    @property
    def selects(self) -> bool:
        """Whether columns are made of the fields by the copy's own words."""
        return self.select is not None or bool(self.columns)

    @property
    def query(self) -> Select:
        """The SELECT; of all fields where there is none.

        Raises:
            QueryError: it is not one that a copy takes.
        """
        try:
            return Select.parse(self.select or f"SELECT * FROM {SOURCE}")
        except QuerySyntax as error:
            raise QueryError(
                f"the SELECT of the copy cannot be used: {error.message}",
                where=Where(line=error.line),
                hint=f"write expressions over the fields of the files, SELECT CAST(a AS INT) AS id FROM {SOURCE}",
            ) from None

    def table(self, name: str, table: BronzeTable) -> BronzeTable:
        """The definition as it holds for this copy.

        Raises:
            UserError: format, options, columns or SELECT are not ones that a copy takes.
        """
        if not table.of_files:
            raise UserError(
                f"{name} reads a Delta table: files cannot be copied into it",
                where=Where(table=name),
                hint="make a bronze table of its own for them",
            )
        changed = self._format(name, table)
        effective = table.model_copy(update=changed)
        if self.select is not None:
            outputs = self.query.outputs
            fixed = not any(output.star for output in outputs)
            if fixed and self.columns and len(self.columns) != len(outputs):
                message = f"the SELECT makes {len(outputs)} columns, and --columns names {len(self.columns)}"
                raise UserError(message, where=Where(table=name))
            names = self.columns or tuple(output.name for output in outputs if not output.star)
        else:
            names = self.columns
            header = any(o.lower() == "header" and v.lower() == "true" for o, v in effective.options.items())
            if names and (effective.format != "csv" or header):
                raise UserError(
                    "--columns gives names by position to CSV files without a header",
                    where=Where(table=name),
                    hint=f'here fields have names of their own: --select "SELECT a AS b FROM {SOURCE}"',
                )
        if fault := names_fault(names):
            raise UserError(f"the columns of the copy cannot be used: {fault}", where=Where(table=name))
        return effective

    def _format(self, name: str, table: BronzeTable) -> dict[str, Any]:
        """The fields of the definition that the copy changes."""
        changed: dict[str, Any] = {}
        if self.merge_schema is not None:
            changed["schemaEvolutionMode"] = "addNewColumns" if self.merge_schema else "failOnNewColumns"
        form = next((known for known in FORMATS if known == (self.format or table.format)), None)
        if form is None:
            hint = nearest(self.format or "", FORMATS) or f"the formats are {', '.join(FORMATS)}"
            raise UserError(f"files cannot be copied as {self.format}", where=Where(table=name), hint=hint)
        if self.format is None and not self.options:
            return changed
        given = {option.lower() for option in self.options}
        before = table.options if form == table.format else {}
        options = {o: v for o, v in before.items() if o.lower() not in given} | dict(self.options)
        for option, value in options.items():
            if problem := reader_options.problem(form, option, value):
                raise UserError(problem.message, where=Where(table=name), hint=problem.hint)
        try:
            BronzeTable.model_validate({"path": table.path, "format": form, "options": options})
        except ValidationError as error:
            said = error.errors()[0].get("ctx", {}).get("message") or error.errors()[0]["msg"]
            raise UserError(str(said), where=Where(table=name)) from None
        changed |= {"format": form, "options": options}
        # Which files are the table's own is said of its own format.
        return changed if form == table.format else {**changed, "pathGlobFilter": None}


def of_chunks(ledger: DeltaTable | None, chunks: Iterable[int]) -> dict[int, CopyOptions]:
    """What was said of how to read the files of some chunks of a ledger; chunks of which nothing was are left out."""
    wanted = set(chunks)
    if ledger is None or not wanted:
        return {}
    behind = ledger.version() - min(wanted) + 1
    found = {commit.version: (commit.ours or {}).get(KEY) for commit in log.commits(ledger, behind)}
    return {chunk: CopyOptions.of(facts) for chunk in wanted if (facts := found.get(chunk))}
