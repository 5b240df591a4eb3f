"""Group files with types of their own: Parquet, ORC and Avro."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import AnalysisException, ArithmeticException
from pyspark.sql import DataFrame, SparkSession

from sluicegate.bronze import file_headers
from sluicegate.bronze.file_groups import Group, group_by_key
from sluicegate.bronze.parquet import groups
from sluicegate.errors import SourceError, Where
from sluicegate.spark import executors
from sluicegate.spark.spark_errors import message
from sluicegate.spark_sql.type_parts import is_void


@dataclass(frozen=True)
class TypedFiles:
    """Files of Parquet, ORC or Avro.

    Attributes:
        session: the Spark session.
        table: the table's name, for messages.
        form: their format.
        load: reads files with Spark.
        damaged: unreadable files with the reason; filled by ``groups``.
        records: number of records by the files' own metadata; filled by ``groups``.
    """

    session: SparkSession
    table: str
    form: str
    load: Callable[[Sequence[str]], DataFrame]
    damaged: dict[str, str]
    records: dict[str, int]

    def groups(self, paths: Sequence[str]) -> Iterator[Group]:
        """Yield groups of files with the same fields, without untyped ones: these come with their first value.

        Raises:
            SourceError: a file is damaged, or Spark rejects its types.
        """
        footers = self._footers(paths)
        for (_, refused, *void), paths_alike in group_by_key(footers, footers.__getitem__):
            if refused:
                group = groups.refused_group(paths_alike)
            else:
                group = self._group(paths_alike)
            fields = [field for field in group.fields if field.name not in void and not is_void(field.dataType)]
            yield replace(group, fields=fields)

    def _group(self, paths: list[str]) -> Group:
        try:
            return Group([*self.load(paths[:1]).schema], paths)
        except (AnalysisException, ArithmeticException) as error:
            group = None
            if self.form == "parquet":
                group = groups.unforeseen_group(paths)
            if group is None:
                # An error of the file: the others of its ledger batch are read.
                where = Where(table=self.table, file=paths[0])
                raise SourceError("Spark rejects the types of a file", where=where, cause=message(error)) from error
            return group

    def _footers(self, paths: Sequence[str]) -> dict[str, tuple[Any, ...]]:
        """Return the schema of each file, whether Spark refuses it, and its columns without a type."""
        facts = executors.map_files(self.session, file_headers.footer, paths, self.form)
        demand_whole(facts, self.table, f"a {self.form} file cannot be read")
        self.damaged.update({path: footer["unreadable"] for path, footer in facts.items() if "unreadable" in footer})
        read = {path: footer for path, footer in facts.items() if "unreadable" not in footer}
        self.records.update({path: footer["records"] for path, footer in read.items() if footer["records"] is not None})
        return {
            path: (footer["fields"], footer.get("refused", False), *footer.get("void", ()))
            for path, footer in read.items()
        }


def demand_whole(facts: dict[str, Any], table: str, fault: str) -> dict[str, Any]:
    """Return the metadata of files after a check for errors.

    Args:
        facts: metadata by paths.
        table: the table's name, for messages.
        fault: message for a file with an error.

    Raises:
        SourceError: a file is damaged.
    """
    for path, result in facts.items():
        if "error" in result:
            raise SourceError(
                f"{fault}: {path}",
                where=Where(table=table, file=path),
                cause=result["error"],
                hint="land a complete file under the same name, then run again",
            )
    return facts
