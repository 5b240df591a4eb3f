"""Register tables of the lake in a catalog, under names that ``spark-sql`` and others find.

The catalog is a Hive metastore in a PostgreSQL database that each Spark opens by itself; there is no service to run.
Tables are registered by location, and columns, rows and history are read from the lake. So registration is rare, a job
of its own, and the layers' jobs need no catalog.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from sluicegate.definition import LAYERS
from sluicegate.definition.pipeline.header import Database
from sluicegate.errors import CatalogConflict, Where
from sluicegate.lake import layout
from sluicegate.lake import tables as lake_tables
from sluicegate.lake.exclusion import renamed
from sluicegate.spark import metastore
from sluicegate.spark_sql.identifiers import literal, quote_name
from sluicegate.storage import durable, filesystems

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate.definition import Pipeline


HIVE = "org.apache.hadoop.hive"


def database(pipeline: Pipeline) -> Database:
    """Return the database of a pipeline's tables."""
    return pipeline.database or Database(name=pipeline.name, comment=pipeline.description)


def tables(pipeline: Pipeline, lake: layout.Lake) -> Iterator[tuple[str, str]]:
    """Yield the name and location of each table meant for people, including quarantined and rejected rows."""
    for layer in LAYERS:
        for name in pipeline.names(layer):
            yield name, lake.table(layer, name)
            if layer == "silver":
                yield f"{name}_quarantine", lake.quarantine(name)
            yield layout.rejected_table(name), layout.rejected_table(lake.table(layer, name))


def is_due(pipeline: Pipeline, lake: layout.Lake) -> bool:
    """Return whether a table or database setting is not registered yet."""
    try:
        fs, path = filesystems.open_store(lake.catalog_registry)
        with fs.open(path, "rt", encoding="utf-8") as file:
            return str(json.load(file)["sum"]) != _checksum(pipeline, _tables_in_lake(pipeline, lake))
    except (FileNotFoundError, ValueError, KeyError):
        return True


def _tables_in_lake(pipeline: Pipeline, lake: layout.Lake) -> dict[str, str]:
    return {name: uri for name, uri in tables(pipeline, lake) if lake_tables.delta_table(uri) is not None}


def _checksum(pipeline: Pipeline, tables_in_lake: dict[str, str]) -> str:
    settings = database(pipeline).model_dump()
    facts = json.dumps([metastore.address(), settings, tables_in_lake], sort_keys=True)
    return hashlib.sha256(facts.encode()).hexdigest()


def prepare(spark: SparkSession) -> None:
    """Create missing tables of the metastore's schema, by an empty query for each class.

    Hive creates them lazily. In PostgreSQL that can wait for ever: creating one with a foreign key needs a lock on a
    table that the very transaction which needs it has written to.
    """
    jvm: Any = spark._jvm
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    hive = jvm.org.apache.hadoop.hive.conf.HiveConf(conf, jvm.java.lang.Class.forName(f"{HIVE}.conf.HiveConf"))
    store = jvm.org.apache.hadoop.hive.metastore.ObjectStore()
    store.setConf(hive)
    for name in _persistent_classes(Path(jvm.java.lang.System.getenv("SPARK_HOME"))):
        store.getPersistenceManager().newQuery(f"SELECT FROM {name}").execute().size()
    store.shutdown()


def _persistent_classes(spark_home: Path) -> list[str]:
    """Return the persistent classes of the metastore, from Hive's ``package.jdo``."""
    (jar,) = spark_home.glob("jars/hive-metastore-*.jar")
    described = ElementTree.fromstring(zipfile.ZipFile(jar).read("package.jdo"))  # noqa: S314 (it is part of Spark)
    return [
        f"{package.get('name')}.{persistent.get('name')}"
        for package in described.iter("package")
        for persistent in package.findall("class")
        if persistent.get("embedded-only") != "true"
    ]


def register(spark: SparkSession, pipeline: Pipeline, lake: layout.Lake) -> list[str]:
    """Register a pipeline's database and its tables that are not in the catalog yet.

    Returns:
        names of the registered tables.

    Raises:
        CatalogConflict: a name already belongs to another table.
    """
    settings, tables_in_lake = database(pipeline), _tables_in_lake(pipeline, lake)
    name = quote_name(settings.name)
    spark.sql(
        f"CREATE DATABASE IF NOT EXISTS {name} COMMENT {literal(settings.comment)}"
        f" LOCATION {literal(f'{lake.databases}/{settings.name}')}"
    )
    if settings.properties:
        properties = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in settings.properties.items())
        spark.sql(f"ALTER DATABASE {name} SET DBPROPERTIES ({properties})")
    _forget_former(spark, {settings.name, *renamed.former_names(lake.root, lake.pipeline)}, lake)
    registered = {row["tableName"] for row in spark.sql(f"SHOW TABLES IN {name}").collect()}
    entered = []
    for table, uri in tables_in_lake.items():
        whole = f"{name}.{quote_name(table)}"
        if table.lower() not in registered:
            spark.sql(f"CREATE TABLE {whole} USING delta LOCATION {literal(uri)}")
            entered.append(table)
        else:
            _demand_same_table(spark, whole, uri)
    registry = {"sum": _checksum(pipeline, tables_in_lake), "tables": sorted(tables_in_lake)}
    durable.write(lake.catalog_registry, json.dumps(registry))
    return entered


def _forget_former(spark: SparkSession, databases: Iterable[str], lake: layout.Lake) -> None:
    """Drop entries under a former name of the pipeline, and that database if it is empty.

    Args:
        spark: the session.
        databases: databases that may have the entries.
        lake: the lake.
    """
    former_names = renamed.former_names(lake.root, lake.pipeline)
    former = tuple(f"{layout.to_ledger_path(lake.root)}/{name}/" for name in former_names)
    if not former:
        return
    for database in filter(spark.catalog.databaseExists, databases):
        name = quote_name(database)
        # Not DESCRIBE, which opens the table: there is none any more.
        entered = spark.sql(f"SHOW TABLE EXTENDED IN {name} LIKE '*'").where("NOT isTemporary").collect()
        places = {row["tableName"]: _location(row["information"]) for row in entered}
        dropped = [
            table
            for table, place in places.items()
            if place.startswith(former) and lake_tables.delta_table(place) is None
        ]
        for table in dropped:
            spark.sql(f"DROP TABLE {name}.{quote_name(table)}")
        if dropped and len(dropped) == len(places) and database in former_names:
            spark.sql(f"DROP DATABASE {name}")


def _location(information: str) -> str:
    lines = (line.partition(": ") for line in information.splitlines())
    return next((layout.to_ledger_path(place) for name, _, place in lines if name == "Location"), "")


def _demand_same_table(spark: SparkSession, whole: str, uri: str) -> None:
    """Refuse a name that another table has: it may be someone else's."""
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {whole}").collect()
    location = next((row["data_type"] for row in described if row["col_name"] == "Location"), "")
    if layout.to_ledger_path(location).rstrip("/") != layout.to_ledger_path(uri).rstrip("/"):
        raise CatalogConflict(
            f"the catalog has a table {whole} at {location or 'another place'}, but this one is at {uri}",
            where=Where(table=whole, file=uri),
            hint=f"if nobody needs it, run `DROP TABLE {whole}` in spark-sql, which deletes no files of Sluicegate;"
            " otherwise, set another database for the pipeline",
        )
