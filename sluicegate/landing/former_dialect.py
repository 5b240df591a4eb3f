"""Tables of CSV files that were read by Spark's dialect, which was the default before RFC 4180 was.

Each commit says by which dialect its files were read; those of before say nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sluicegate.lake.commits.commit_info import BronzeFacts

if TYPE_CHECKING:
    from sluicegate.definition import BronzeTable, Pipeline
    from sluicegate.lake.layout import Lake
    from sluicegate.lake.table import Table, Tables


def facts(table: BronzeTable) -> dict[str, Any]:
    """Return the dialect for the metadata of a commit; nothing where the files are not CSV."""
    if table.format != "csv":
        return {}
    return {BronzeFacts.dialect.key: table.dialect}


def remark(pipeline: str, name: str, table: BronzeTable, stored: Table) -> str:
    """Return the remark on a table whose files were read by the former default, empty for any other.

    A definition that sets the escape of quotes or the dialect is read as before.
    """
    of_its_own = "dialect" in table.model_fields_set or "escape" in table.options_by_lower_name
    if table.format != "csv" or of_its_own or not stored.rows:
        return ""
    last = stored.last_own_commit
    if last is None or last.info.bronze.dialect:
        return ""
    return (
        f"{name} was read in Spark's CSV dialect, and is now read by RFC 4180: in a quoted value a quote is doubled, "
        f"and a backslash is a plain character. Existing rows do not change; `sluicegate reset {pipeline} {name}` "
        "reads their files again. Set `dialect: spark` next to `format: csv` to keep the former dialect"
    )


def remarks(pipeline: Pipeline, lake: Lake, opened: Tables) -> list[str]:
    """Return the remarks on a pipeline's tables before a run."""
    each = ((name, table) for name, table in pipeline.bronze.items() if table.format == "csv")
    sentences = (remark(pipeline.name, name, table, opened[lake.table("bronze", name)]) for name, table in each)
    return [sentence for sentence in sentences if sentence]
