"""pipeline.yaml as typed models, with every mistake reported at once. No Spark and no Airflow.

The public names are imported lazily: neither the time of a verification nor the fingerprint of a key needs pydantic's
models or the SQL parser.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluicegate.definition.apply_changes import ApplyChanges, ApplyChangesFromSnapshot
    from sluicegate.definition.bronze import BronzeTable
    from sluicegate.definition.expectations import Expectation
    from sluicegate.definition.gold import GoldTable
    from sluicegate.definition.header import Database
    from sluicegate.definition.loader import load, load_file, names
    from sluicegate.definition.pipeline import Pipeline
    from sluicegate.definition.silver import SilverTable
    from sluicegate.definition.table import LAYERS, Layer

__all__ = [
    "LAYERS",
    "ApplyChanges",
    "ApplyChangesFromSnapshot",
    "BronzeTable",
    "Database",
    "Expectation",
    "GoldTable",
    "Layer",
    "Pipeline",
    "SilverTable",
    "load",
    "load_file",
    "names",
]

_HOMES = {
    "apply_changes": ("ApplyChanges", "ApplyChangesFromSnapshot"),
    "bronze": ("BronzeTable",),
    "expectations": ("Expectation",),
    "header": ("Database",),
    "loader": ("load", "load_file", "names"),
    "gold": ("GoldTable",),
    "pipeline": ("Pipeline",),
    "silver": ("SilverTable",),
    "table": ("LAYERS", "Layer"),
}


def __getattr__(name: str) -> Any:
    """Import a name of ``__all__`` from its module on first use (PEP 562)."""
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
