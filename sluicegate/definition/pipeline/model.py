"""Model of a pipeline, and the models of its parts under one roof.

Each model checks itself; definition/checks/columns.py has the cross-table checks. Messages are made with ``wrong``,
which gives them a stable code and a hint, in our words and not in pydantic's.

``docs/reference/`` and ``docs/pipeline.schema.json`` are generated from the docstrings of the models and their
attributes. ``json_schema_extra`` tells editors which fields exclude each other, beside the check itself.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import PrivateAttr

from sluicegate.definition import graph
from sluicegate.definition.fields import suggest_or_list
from sluicegate.definition.pipeline.airflow import AirflowSettings as AirflowSettings
from sluicegate.definition.pipeline.alerts import Alerts as Alerts
from sluicegate.definition.pipeline.alerts import Backlog as Backlog
from sluicegate.definition.pipeline.alerts import Freshness as Freshness
from sluicegate.definition.pipeline.alerts import RuleRate as RuleRate
from sluicegate.definition.pipeline.alerts import Volume as Volume
from sluicegate.definition.pipeline.header import Database as Database
from sluicegate.definition.pipeline.header import Header as Header
from sluicegate.definition.pipeline.maintenance import Maintenance as Maintenance
from sluicegate.definition.pipeline.notify import Notify as Notify
from sluicegate.definition.pipeline.param_values import ParamValue
from sluicegate.definition.pipeline.params import Param as Param
from sluicegate.definition.pipeline.targets import Target as Target
from sluicegate.definition.pipeline.views import Views
from sluicegate.definition.tables.apply_changes import ApplyChanges as ApplyChanges
from sluicegate.definition.tables.apply_changes import ApplyChangesFromSnapshot as ApplyChangesFromSnapshot
from sluicegate.definition.tables.bronze import BronzeTable as BronzeTable
from sluicegate.definition.tables.expectations import Expectation as Expectation
from sluicegate.definition.tables.gold import GoldTable
from sluicegate.definition.tables.kafka import KafkaSource as KafkaSource
from sluicegate.definition.tables.ruled import Ruled
from sluicegate.definition.tables.silver import SilverTable
from sluicegate.definition.tables.silver_flow import SilverFlow as SilverFlow
from sluicegate.definition.tables.table import DEIDENTIFIED, LAYERS, Layer
from sluicegate.definition.tables.table_rules import RowCount as RowCount
from sluicegate.definition.tables.table_rules import TableRule as TableRule
from sluicegate.errors import PipelineMissing
from sluicegate.settings import Settings


class Pipeline(Header):
    """A pipeline: landed files, and the tables made from them.

    Its name and those of its tables are small letters, digits and ``_``, with a letter first. No two tables have one
    name, be it in different layers, and none ends in ``_quarantine``, ``_rejected`` or ``_deidentified``.

    Attributes:
        name: its name, also that of its folder.
        description: what it is for.
        schedule: cron expression with five fields, in UTC; without it runs start by hand, or by the trigger, only.
        queueUrl: URL of an SQS queue with the event notifications of the landing bucket: with ``trigger``, its
            messages start runs.
        trigger: ``file_arrival``: in Airflow a run also starts when files have landed; scheduled runs then wait for
            nothing.
        tasks: ``layers``: in Airflow each layer is a task with its own spark-submit; ``run``: one task runs all of
            them in one Spark.
        owner: who answers for it.
        tags: its tags in Airflow.
        notify: notifiers for failed or successful runs in Airflow.
        alerts: limits of freshness, volume, backlog and rates of rules, each to warn and to fail above.
        airflow: pool, queue, retries and the like of its DAGs and tasks in Airflow.
        maintenance: schedule and retention of OPTIMIZE and VACUUM.
        verify: schedule of verification, and the share that it compares.
        database: database of its tables in the catalog.
        params: parameters by name, for ``${param:name}`` in paths, options and SQL.
        targets: environments by name, each with its own lake.
        bronze: tables of files as they came.
        silver: tables of evaluated records.
        gold: tables computed from silver, and from each other.
        views: queries by name, as a file name or text, that queries of silver, gold and rules about a whole table
            read like tables. A view has no data: it is a WITH of each query that reads it.
    """

    bronze: dict[str, BronzeTable] = {}
    silver: dict[str, SilverTable] = {}
    gold: dict[str, GoldTable] = {}
    views: dict[str, str] = {}
    _views: Views = PrivateAttr(default_factory=Views)
    _folder: Path = PrivateAttr(Path())
    _settings: Settings = PrivateAttr(default_factory=Settings.of)
    _unchecked: dict[str, str] = PrivateAttr(default_factory=dict)
    _values: dict[str, ParamValue] = PrivateAttr(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Folder of its pipeline.yaml."""
        return self._folder

    @property
    def settings(self) -> Settings:
        """Settings with which it was loaded: lake, landing and master."""
        return self._settings

    @property
    def unchecked(self) -> dict[str, str]:
        """Tables and views whose queries only Spark can check completely, each with the reason."""
        return self._unchecked

    @property
    def values(self) -> dict[str, ParamValue]:
        """Values of its parameters."""
        return self._values

    @property
    def deidentified_tables(self) -> dict[str, str]:
        """Names of the de-identified tables, each with its silver table."""
        return {f"{name}{DEIDENTIFIED}": name for name, table in self.silver.items() if table.deidentified}

    @property
    def pii(self) -> frozenset[str]:
        """Lower-case names of all columns that are marked as personal data."""
        return frozenset(column.lower() for table in self.silver.values() for column in table.pii)

    @property
    def ruled(self) -> list[str]:
        """Tables whose rows are held to rules."""
        tables: dict[str, Ruled] = {**self.bronze, **self.silver, **self.gold}
        return [name for name, table in tables.items() if table.has_rules]

    def names(self, layer: Layer) -> list[str]:
        """Return tables of a layer that a run writes, each de-identified one right after its silver table."""
        names: list[str] = []
        for name in getattr(self, layer):
            copy = f"{name}{DEIDENTIFIED}"
            names.append(name)
            if copy in self.deidentified_tables:
                names.append(copy)
        return names

    def table(self, name: str) -> tuple[Layer, BronzeTable | SilverTable | GoldTable]:
        """Return the layer and definition of a table.

        Raises:
            PipelineMissing: it has no such table.
        """
        for layer in LAYERS:
            if name in getattr(self, layer):
                return layer, getattr(self, layer)[name]
        tables = [*self.bronze, *self.silver, *self.gold]
        hint = suggest_or_list(name, tables, "its tables are")
        raise PipelineMissing(f"unknown table {name} of the pipeline {self.name}", hint=hint)

    def in_order(self, layer: Layer) -> list[str]:
        """Return the tables of a layer in topological order, by what they and their rules read, else as defined."""
        tables = getattr(self, layer)
        return graph.topological_order({name: [*self.reads(name), *tables[name].rules_read(name)] for name in tables})

    def reads(self, name: str) -> list[str]:
        """Return tables that a table reads, the followed one first; none for a bronze table, which reads files."""
        if name in self.deidentified_tables:
            return [self.deidentified_tables[name]]
        if name in self.silver:
            return self.silver[name].reads
        if name in self.gold:
            return list(self.gold[name].reads)
        return []

    def names_in(self, name: str) -> list[str]:
        """Return tables and views that the query of a table or view names; of any other table those that it reads."""
        if name in self._views.reads:
            return list(self._views.reads[name])
        table = self.silver.get(name) or self.gold.get(name)
        if table is None:
            return self.reads(name)
        return table.referenced_names


def bronze_table(pipeline: Pipeline, name: str) -> BronzeTable:
    """Return the definition of a bronze table.

    Raises:
        PipelineMissing: it has no such bronze table.
    """
    if name not in pipeline.bronze:
        tables = ", ".join(pipeline.bronze) or "none"
        raise PipelineMissing(f"unknown bronze table {name} of {pipeline.name}", hint=f"its bronze tables are {tables}")
    return pipeline.bronze[name]
