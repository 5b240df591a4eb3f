"""Files to bronze, silver and gold Delta tables on open Spark and Airflow.

What a program of yours may use is here by name, and imported only when it is asked for::

    import sluicegate as sg

    pipeline = sg.load("heart_rate", sg.Settings.of(lake="lake"))
    for report in sg.run(pipeline):
        print(report.layer, report.seconds)
    print(sg.sql("SELECT * FROM heart_rate.daily_patient_avg"))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluicegate.api import (
        alerts,
        copy_into,
        discard,
        files,
        history,
        impact,
        lineage,
        load,
        plan,
        reload,
        replay,
        reset,
        run,
        skip,
        spark_session,
        sql,
        status,
        verify,
    )
    from sluicegate.definition.pipeline.model import Pipeline
    from sluicegate.errors import (
        AccountingError,
        AlertsFailed,
        BrokerRefused,
        BrokerUnreachable,
        CaseError,
        CasesFailed,
        CatalogConflict,
        ChangesError,
        ColumnMissing,
        DamagedTable,
        DefinitionError,
        ExpectationFailed,
        FanOut,
        FilesLate,
        JavaMissing,
        JobFailed,
        LakeLocked,
        LakeUnsupported,
        LandingMissing,
        NotADeltaTable,
        NotVerified,
        PiiKeyMissing,
        PipelineMissing,
        PipelineRenamed,
        QueryError,
        RecordsLost,
        RenameRefused,
        SchemaMismatch,
        SettingsError,
        SluicegateError,
        SourceError,
        SparkUnreachable,
        StoreRefused,
        StoreUnreachable,
        TableRuleFailed,
        TargetConflict,
        TransformError,
        UserError,
    )
    from sluicegate.flow.selection import Interval
    from sluicegate.settings import Settings

    __version__: str

__all__ = [
    "AccountingError", "AlertsFailed", "BrokerRefused", "BrokerUnreachable", "CaseError", "CasesFailed",
    "CatalogConflict", "ChangesError", "ColumnMissing", "DamagedTable", "DefinitionError", "ExpectationFailed",
    "FanOut", "FilesLate", "Interval", "JavaMissing", "JobFailed", "LakeLocked", "LakeUnsupported", "LandingMissing",
    "NotADeltaTable", "NotVerified", "PiiKeyMissing", "Pipeline", "PipelineMissing", "PipelineRenamed", "QueryError",
    "RecordsLost", "RenameRefused", "SchemaMismatch", "Settings", "SettingsError", "SluicegateError", "SourceError",
    "SparkUnreachable", "StoreRefused", "StoreUnreachable", "TableRuleFailed", "TargetConflict", "TransformError",
    "UserError", "__version__", "alerts", "copy_into", "discard", "files", "history", "impact", "lineage", "load",
    "plan", "reload", "replay", "reset", "run", "skip", "spark_session", "sql", "status", "verify",
]  # fmt: skip

_HOMES = {"Interval": "flow.selection", "Pipeline": "definition.pipeline.model", "Settings": "settings"}


def __getattr__(name: str) -> Any:
    """Import the module that a name of ``__all__`` is defined in (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        value: Any = import_module("importlib.metadata").version("sluicegate")
    else:
        home = _HOMES.get(name, "api" if name[0].islower() else "errors")
        value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
