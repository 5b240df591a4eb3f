"""The types of a definition: one class for each kind of thing that pipeline.yaml can hold.

Each checks what can be seen in it alone; definition/checks.py has what only the whole shows. Messages are made with
``wrong``, so that they reach people with a stable code and a hint, in our words and not in pydantic's.

``docs/reference.md`` and ``docs/pipeline.schema.json`` take what the docstrings here say of each part and field.
What editors should know of fields that exclude each other stands in ``json_schema_extra``, beside the check itself.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import PrivateAttr

from sluicegate.definition.apply_changes import ApplyChanges as ApplyChanges
from sluicegate.definition.apply_changes import ApplyChangesFromSnapshot as ApplyChangesFromSnapshot
from sluicegate.definition.bronze import BronzeTable as BronzeTable
from sluicegate.definition.expectations import Expectation as Expectation
from sluicegate.definition.fields import nearest
from sluicegate.definition.gold import GoldTable
from sluicegate.definition.header import Database as Database
from sluicegate.definition.header import Header as Header
from sluicegate.definition.maintenance import Maintenance as Maintenance
from sluicegate.definition.notify import Notify as Notify
from sluicegate.definition.silver import SilverTable
from sluicegate.definition.table import DEIDENTIFIED, LAYERS, Layer
from sluicegate.errors import PipelineMissing
from sluicegate.settings import Settings


class Pipeline(Header):
    """A pipeline: files that land, and the tables that are made of them.

    Its name and those of its tables are small letters, digits and ``_``, with a letter first. No two tables have one
    name, be it in different layers, and none ends in ``_quarantine`` or ``_deidentified``.

    Attributes:
        name: its name, also that of its folder.
        description: what it is for.
        schedule: cron expression with five fields, in UTC; without it runs start by hand, or by the trigger, only.
        queueUrl: address of an SQS queue that the landing's store tells of new objects: with ``trigger``, its messages
            start runs then, and landing is listed every ten minutes only.
        trigger: ``file_arrival``: in Airflow a run also starts when files have landed; those of the schedule then take
            what no run was started for, and wait for nothing.
        owner: who answers for it.
        tags: words to find it by.
        notify: who is told when a run in Airflow fails, or succeeds.
        maintenance: when small files are put together and old ones deleted, and how old.
        verify: when the tables are proved to be what they should be, and how much of gold.
        database: where a catalog shows its tables.
        bronze: tables of files as they came.
        silver: tables of judged records.
        gold: tables computed from them.
    """

    bronze: dict[str, BronzeTable] = {}
    silver: dict[str, SilverTable] = {}
    gold: dict[str, GoldTable] = {}
    _folder: Path = PrivateAttr(Path())
    _settings: Settings = PrivateAttr(default_factory=Settings.of)

    @property
    def folder(self) -> Path:
        """Folder of its pipeline.yaml."""
        return self._folder

    @property
    def settings(self) -> Settings:
        """What it was read with: the lake, the landing and the master that it speaks of."""
        return self._settings

    @property
    def deidentified_tables(self) -> dict[str, str]:
        """The de-identified tables, each with the name of the silver table that it is of."""
        return {f"{name}{DEIDENTIFIED}": name for name, table in self.silver.items() if table.deidentified}

    @property
    def pii(self) -> frozenset[str]:
        """Names, in small letters, of all columns that are marked as personal data."""
        return frozenset(column.lower() for table in self.silver.values() for column in table.pii)

    def names(self, layer: Layer) -> list[str]:
        """All tables of a layer that a run fills, a de-identified one right behind the one that it is of."""
        names: list[str] = []
        for name in getattr(self, layer):
            names += [name, *(copy for copy, of in self.deidentified_tables.items() if of == name)]
        return names

    def table(self, name: str) -> tuple[Layer, BronzeTable | SilverTable | GoldTable]:
        """The layer and the definition of a table.

        Raises:
            PipelineMissing: it has no such table.
        """
        for layer in LAYERS:
            if name in getattr(self, layer):
                return layer, getattr(self, layer)[name]
        known = [*self.bronze, *self.silver, *self.gold]
        hint = nearest(name, known) or f"its tables are {', '.join(known)}"
        raise PipelineMissing(f"the pipeline {self.name} has no table {name}", hint=hint)

    def silver_order(self) -> list[str]:
        """The silver tables, each behind those that it reads; in the order of the definition where that is free."""
        order: list[str] = []
        while len(order) < len(self.silver):
            order.append(
                next(
                    name
                    for name, table in self.silver.items()
                    if name not in order and all(read in order or read not in self.silver for read in table.reads)
                )
            )
        return order


def bronze_table(pipeline: Pipeline, name: str) -> BronzeTable:
    """A table of the pipeline that files can be copied into.

    Raises:
        PipelineMissing: it has no such bronze table.
    """
    if name not in pipeline.bronze:
        known = ", ".join(pipeline.bronze) or "none"
        raise PipelineMissing(f"{pipeline.name} has no bronze table {name}", hint=f"its bronze tables are {known}")
    return pipeline.bronze[name]
