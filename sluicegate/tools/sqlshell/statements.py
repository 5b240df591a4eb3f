"""Commands that do what statements of Spark and Databricks do that are no SELECT."""

from __future__ import annotations

_REBUILT = "tables follow from their definition and landed files: change pipeline.yaml, or land other files"
_NEW_TABLE = "write the query into pipeline.yaml as a silver or gold table, and `sluicegate run PIPELINE`"
_COMPACTED = "`sluicegate maintain PIPELINE` compacts small files and deletes old ones"

_COMMANDS = {
    "SHOW": "`sluicegate status` lists all tables, `sluicegate status PIPELINE` those of one pipeline",
    "USE": "put the pipeline before the table, for example SELECT * FROM heart_rate.daily_patient_avg",
    "DESCRIBE": "`sluicegate schema PIPELINE TABLE` shows the columns of a bronze table, and `sluicegate history "
    "PIPELINE TABLE` the commits; a SELECT with LIMIT 0 shows the columns of any table",
    "CREATE": _NEW_TABLE,
    "REPLACE": _NEW_TABLE,
    "COPY": "`sluicegate copy-into PIPELINE TABLE SOURCE` copies files into a bronze table, each once",
    "INSERT": "land a file, or `sluicegate copy-into PIPELINE TABLE SOURCE`; then `sluicegate run PIPELINE`",
    "UPDATE": _REBUILT,
    "DELETE": _REBUILT,
    "MERGE": _REBUILT,
    "DROP": "remove the table from pipeline.yaml; its rows stay in the lake until its folder is deleted",
    "ALTER": "columns, comments and properties of a table are set in pipeline.yaml",
    "OPTIMIZE": _COMPACTED,
    "VACUUM": _COMPACTED,
    "RESTORE": "read an older version with VERSION AS OF; Spark can restore one, and the next run adds what it lacks",
}
_COMMANDS |= {"DESC": _COMMANDS["DESCRIBE"]}


def hint(statement: str) -> str:
    """Return the command here that replaces a statement, empty for an unknown one.

    Args:
        statement: first word of the statement, in any case.
    """
    return _COMMANDS.get(statement.upper(), "")
