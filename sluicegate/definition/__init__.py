"""pipeline.yaml as typed models, with every mistake reported at once. No Spark and no Airflow.

The public names are imported lazily: neither the time of a verification nor the fingerprint of a key needs pydantic's
models or the SQL parser.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluicegate.definition.pipeline.header import Database
    from sluicegate.definition.pipeline.model import Pipeline
    from sluicegate.definition.reading.loader import load, load_file, names
    from sluicegate.definition.tables.apply_changes import ApplyChanges, ApplyChangesFromSnapshot
    from sluicegate.definition.tables.bronze import BronzeTable
    from sluicegate.definition.tables.expectations import Expectation
    from sluicegate.definition.tables.gold import GoldTable
    from sluicegate.definition.tables.silver import SilverTable
    from sluicegate.definition.tables.table import LAYERS, Layer

__all__ = [
    "LAYERS", "ApplyChanges", "ApplyChangesFromSnapshot", "BronzeTable", "Database", "Expectation", "GoldTable",
    "Layer", "Pipeline", "SilverTable", "load", "load_file", "names",
]  # fmt: skip

_HOMES = {
    "tables.apply_changes": ("ApplyChanges", "ApplyChangesFromSnapshot"), "tables.bronze": ("BronzeTable",),
    "tables.expectations": ("Expectation",), "pipeline.header": ("Database",),
    "reading.loader": ("load", "load_file", "names"), "tables.gold": ("GoldTable",), "pipeline.model": ("Pipeline",),
    "tables.silver": ("SilverTable",), "tables.table": ("LAYERS", "Layer"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name of ``__all__`` from its module on first use (PEP 562)."""
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
