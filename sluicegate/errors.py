"""Error hierarchy, with codes and exit codes.

::

    SluicegateError            SG100  exit 1   anything else
    ├── UserError              SG200  exit 2   the user's mistake
    │   ├── DefinitionError    SG201           a mistake in pipeline.yaml or the SQL beside it
    │   ├── PipelineMissing    SG202           no such pipeline, layer or table
    │   ├── LandingMissing     SG203           a landing folder that does not exist
    │   ├── NotADeltaTable     SG204           files where a Delta table was expected
    │   ├── JavaMissing        SG205           no Java 17 or newer, or no jars: nothing can start Spark
    │   ├── QueryError         SG206           a query that Spark or the SQL command refuses
    │   ├── SourceError        SG207           landed files that cannot be read as the definition says
    │   ├── FanOut             SG208           a transform that makes several rows of one record
    │   ├── LakeUnsupported    SG209           a lake where this version cannot work safely, or at all
    │   ├── SchemaMismatch     SG210           columns or types that a table may not take
    │   ├── TransformError     SG211           a Python transform that raised, or returned no batch of records
    │   ├── ChangesError       SG212           columns that apply_changes cannot work with
    │   ├── PiiKeyMissing      SG213           no usable key for pseudonyms of personal data
    │   ├── StoreRefused       SG214           an object store that lets nobody in, or has no such bucket
    │   ├── CatalogConflict    SG215           a name in the catalog that stands for another table
    │   ├── CaseError          SG216           a mistake in the cases that test a pipeline
    │   ├── TargetConflict     SG217           tables of a lake that belong to another target
    │   ├── RecordsLost        SG218           records of a topic that are gone before they were read
    │   ├── BrokerRefused      SG219           Kafka's brokers let nobody in, or cannot be connected to as is said
    │   ├── RenameRefused      SG220           a name that a pipeline cannot have
    │   ├── PipelineRenamed    SG221           a run of a name that the pipeline no longer has, or not yet
    │   ├── ColumnMissing      SG222           no such column of a table
    │   └── SettingsError      SG223           a mistake in sluicegate.toml
    ├── ExpectationFailed      SG300  exit 3   data broke an expect_or_fail, or too many rows another expectation
    │   └── TableRuleFailed    SG303  exit 3   data broke a rule about a whole table
    ├── CasesFailed            SG301  exit 3   tables are not what the cases of a pipeline expect
    ├── NotVerified            SG302  exit 3   a verification found rows that are lost, doubled or other
    ├── FilesLate              SG304  exit 3   no file within the time span that the definition expects
    ├── AlertsFailed           SG305  exit 3   freshness, volume, backlog or a rule beyond a limit of the definition
    ├── AccountingError        SG400  exit 1   read != written + quarantined + dropped + duplicates
    ├── LakeLocked             SG401  exit 1   another run holds the pipeline's lock
    ├── JobFailed              SG402  exit 1   a spark-submit job ended without a report
    ├── StoreUnreachable       SG403  exit 1   an object store that does not answer, or fails
    ├── SparkUnreachable       SG404  exit 1   a Spark Connect server that does not answer, or lets nobody in
    ├── BrokerUnreachable      SG405  exit 1   Kafka's brokers do not answer
    └── DamagedTable           SG406  exit 1   a file of a table that the disk has lost, in whole or part
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sluicegate.escapes import escape_lines, escape_text


@dataclass(frozen=True)
class Where:
    """Place of an error; every field may be unknown.

    Attributes:
        table: name of the table, as in the definition.
        file: path or URI of the file.
        line: line in that file, counted from 1.
    """

    table: str | None = None
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = self.file or ""
        if place and self.line is not None:
            place += f":{self.line}"
        return ", ".join(filter(None, (self.table and f"table {self.table}", place)))


class SluicegateError(Exception):
    """Base of all our errors.

    Args:
        message: one sentence that says what happened.
        where: the place it happened at.
        cause: why, in the words of the system that failed; may be empty, as the hint may.
        hint: what the reader can do about it.

    Attributes:
        reports: reports of the layers that had ended well before, where a run of several failed.
        others: errors of further tables that failed in the same run.
    """

    code = "SG100"
    exit_code = 1
    reports: Sequence[Any] = ()
    others: Sequence[SluicegateError] = ()

    def __init__(self, message: str, *, where: Where | None = None, cause: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message, self.cause, self.hint = message, cause, hint
        self.where = where or Where()

    def as_dict(self) -> dict[str, Any]:
        """Return the error as in a job's last line and in ``--json`` output."""
        facts = {"code": self.code, "exit_code": self.exit_code, "message": self.message, **asdict(self.where),
                 "cause": self.cause, "hint": self.hint}  # fmt: skip
        return facts | ({"others": [error.as_dict() for error in self.others]} if self.others else {})

    def for_people(self) -> str:
        """Return the text for a terminal: message, place, cause and help."""
        lines = [f"error[{self.code}]: {escape_text(self.message)}"]
        if place := str(self.where):
            lines.append(f"  --> {escape_text(place)}")
        if self.cause:
            lines.append(f"  cause: {escape_lines(self.cause)}")
        if self.hint:
            lines.append(f"  help: {escape_lines(self.hint)}")
        return "\n".join([*lines, *(error.for_people() for error in self.others)])


class UserError(SluicegateError):
    """Raised when the user's input cannot be acted on; nothing was written."""

    code = "SG200"
    exit_code = 2


@dataclass(frozen=True)
class Mistake:
    """One mistake in a definition.

    Attributes:
        code: stable code of the kind of mistake, such as ``unknown-field``.
        path: where in the document, dotted, such as ``silver.orders.keys``.
        message: one sentence: what was found and what is allowed.
        file: the file it is in.
        line: its line there, counted from 1.
        hint: the nearest right name, or what to write instead (may be empty).
    """

    code: str
    path: str
    message: str
    file: str
    line: int | None
    hint: str = ""

    def __str__(self) -> str:
        text = f"{Where(file=self.file, line=self.line)}: {self.path}: {self.message} [{self.code}]"
        if self.hint:
            return f"{text}\n    help: {self.hint}"
        return text


class DefinitionError(UserError):
    """Raised with *all* the mistakes of a definition at once."""

    code = "SG201"
    subject = "the definition of {} has"

    def __init__(self, pipeline: str, mistakes: list[Mistake]) -> None:
        first = mistakes[0]
        subject = self.subject.format(pipeline)
        message = f"{subject} {len(mistakes)} mistakes"
        if len(mistakes) == 1:
            message = f"{subject} a mistake: {first.path}: {first.message}"
        super().__init__(message, where=Where(file=first.file, line=first.line), hint=first.hint)
        self.mistakes = mistakes

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "mistakes": list(map(asdict, self.mistakes))}

    def for_people(self) -> str:
        if len(self.mistakes) < 2:
            return super().for_people()
        mistakes = [f"  {escape_lines(str(mistake))}" for mistake in self.mistakes]
        return "\n".join([f"error[{self.code}]: {escape_text(self.message)}", *mistakes])


class CaseError(DefinitionError):
    """Raised with all mistakes in a pipeline's test cases: in their files, or a column that no table has."""

    code = "SG216"
    subject = "the cases of {} have"


class SettingsError(DefinitionError):
    """Raised with all mistakes in the settings file of a project, or for a target that it does not have."""

    code = "SG223"
    subject = "{} has"


class PipelineMissing(UserError):
    """Raised when a named pipeline, layer or table is not in the definitions."""

    code = "SG202"


class LandingMissing(UserError):
    """Raised when a landing folder, or a named file in it, does not exist or cannot be listed."""

    code = "SG203"


class NotADeltaTable(UserError):
    """Raised when there are files, but no Delta log that can be read, where a table should be."""

    code = "SG204"


class JavaMissing(UserError):
    """Raised when Spark cannot be started on this machine: no Java 17 or newer, or no Delta jars."""

    code = "SG205"


class QueryError(UserError):
    """Raised when a query, a condition or a rule is refused by the engine that runs it.

    Attributes:
        at: field or rule of its table that is to be corrected, by which the job finds its line; empty if unknown.
    """

    code = "SG206"
    at: str = ""

    def __init__(
        self, message: str, *, where: Where | None = None, cause: str = "", hint: str = "", at: str = ""
    ) -> None:
        super().__init__(message, where=where, cause=cause, hint=hint)
        self.at = at


class SourceError(UserError):
    """Raised when landed files cannot be read as the definition says."""

    code = "SG207"


class SchemaMismatch(UserError):
    """Raised when columns of files or of a transform, or types of the definition, do not fit a table."""

    code = "SG210"


class TransformError(UserError):
    """Raised when a Python transform cannot be loaded, raises, or returns no DataFrame with the record ids."""

    code = "SG211"


class ChangesError(UserError):
    """Raised when ``apply_changes`` names columns that records lack, or records have columns that it adds."""

    code = "SG212"


class PiiKeyMissing(UserError):
    """Raised when personal data needs pseudonyms, and the key is missing or too short to be safe."""

    code = "SG213"


class StoreRefused(UserError):
    """Raised when an object store refuses a request: missing or wrong credentials, or no such bucket."""

    code = "SG214"


class FanOut(UserError):
    """Raised when a silver transform without ``rows: many`` gives several rows for one record."""

    code = "SG208"


class LakeUnsupported(UserError):
    """Raised when a lake's store, path or lock file is none with which writers can be kept apart."""

    code = "SG209"


class CatalogConflict(UserError):
    """Raised when a name in the catalog belongs to a table that is not the pipeline's."""

    code = "SG215"


class TargetConflict(UserError):
    """Raised when a run is of another target than the tables that it would write."""

    code = "SG217"


class RecordsLost(UserError):
    """Raised when a topic no longer has records that are to be read: its retention passed, or it is another topic."""

    code = "SG218"


class BrokerRefused(UserError):
    """Raised when Kafka's brokers refuse the credentials, or what these may do, or no connection can be set up."""

    code = "SG219"


class RenameRefused(UserError):
    """Raised when a pipeline cannot have the name that it is to get; nothing was renamed."""

    code = "SG220"


class PipelineRenamed(UserError):
    """Raised when a run is of a name that the pipeline no longer has, or while it is being renamed."""

    code = "SG221"


class ColumnMissing(UserError):
    """Raised when a table has no column of a name."""

    code = "SG222"


class ExpectationFailed(SluicegateError):
    """Raised when rows break an ``expect_or_fail``, or too many another; they are in ``{table}_rejected``."""

    code = "SG300"
    exit_code = 3


class TableRuleFailed(ExpectationFailed):
    """Raised when a table would break a rule about all of its rows (``expect_table``); the batch is not committed."""

    code = "SG303"


class CasesFailed(SluicegateError):
    """Raised when tables differ from what a pipeline's test cases expect."""

    code = "SG301"
    exit_code = 3


class NotVerified(SluicegateError):
    """Raised when a verification finds rows that are lost, doubled or other."""

    code = "SG302"
    exit_code = 3


class FilesLate(SluicegateError):
    """Raised when no file has arrived within the time span that a bronze table expects (``expect_files_within``)."""

    code = "SG304"
    exit_code = 3


class AlertsFailed(SluicegateError):
    """Raised when freshness, volume, backlog or the rate of a rule is beyond a limit ``fail`` of the definition."""

    code = "SG305"
    exit_code = 3


class AccountingError(SluicegateError):
    """Raised when reconciliation fails: read != written + quarantined + dropped + duplicates."""

    code = "SG400"


class LakeLocked(SluicegateError):
    """Raised when another run holds the pipeline's lock for longer than we wait, or took over our lease."""

    code = "SG401"


class JobFailed(SluicegateError):
    """Raised when a spark-submit job ended without a report."""

    code = "SG402"


class StoreUnreachable(SluicegateError):
    """Raised when an object store does not answer, or fails, until retries are exhausted."""

    code = "SG403"


class SparkUnreachable(SluicegateError):
    """Raised when a Spark Connect server does not answer, or refuses the token."""

    code = "SG404"


class BrokerUnreachable(SluicegateError):
    """Raised when Kafka's brokers do not answer in time."""

    code = "SG405"


class DamagedTable(SluicegateError):
    """Raised when a log entry or a data file of a table is not what was written, as after a power cut."""

    code = "SG406"


def error_type(code: str) -> type[SluicegateError]:
    """Return the error type of a code; ``SluicegateError`` for an unknown one, such as a later release's."""
    kinds = [SluicegateError]
    for kind in kinds:  # grows while it is iterated
        kinds += kind.__subclasses__()
    return next((kind for kind in kinds if kind.code == code), SluicegateError)
