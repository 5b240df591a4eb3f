"""Hive metastore of the catalog: a PostgreSQL database that each Spark opens itself."""

from __future__ import annotations

import os

# JDBC address of its database; without it there is no catalog.
ADDRESS = "SLUICEGATE_METASTORE"
USER = "SLUICEGATE_METASTORE_USER"
PASSWORD = "SLUICEGATE_METASTORE_PASSWORD"  # noqa: S105 (the variable's name)


def address() -> str:
    """Return the JDBC address of the metastore's database; empty if there is no catalog."""
    return os.environ.get(ADDRESS, "")


def conf() -> dict[str, str]:
    """Return the Spark settings that open the metastore of the environment.

    No value is secret: Hadoop substitutes the variables.
    """
    known = {
        "javax.jdo.option.ConnectionURL": f"${{env.{ADDRESS}}}",
        "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
        "javax.jdo.option.ConnectionUserName": f"${{env.{USER}}}",
        "javax.jdo.option.ConnectionPassword": f"${{env.{PASSWORD}}}",
        # The first Spark that opens it creates its tables; Spark ships no scripts for that.
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
    }
    return {"spark.sql.catalogImplementation": "hive"} | {f"spark.hadoop.{key}": value for key, value in known.items()}
