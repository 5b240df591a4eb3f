"""The Hive metastore that is the catalog: a PostgreSQL database which each Spark that wants it opens by itself."""

from __future__ import annotations

import os

# The environment names the JDBC address of its database; there is no catalog where that is not set.
ADDRESS = "SLUICEGATE_METASTORE"
USER = "SLUICEGATE_METASTORE_USER"
PASSWORD = "SLUICEGATE_METASTORE_PASSWORD"  # noqa: S105 (the variable's name)


def address() -> str:
    """The JDBC address of the metastore's database; empty where there is no catalog."""
    return os.environ.get(ADDRESS, "")


def conf() -> dict[str, str]:
    """What a Spark needs to open the metastore that the environment names.

    No value of it is secret: Hadoop puts the variables' values in the place of their names.
    """
    known = {
        "javax.jdo.option.ConnectionURL": f"${{env.{ADDRESS}}}",
        "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
        "javax.jdo.option.ConnectionUserName": f"${{env.{USER}}}",
        "javax.jdo.option.ConnectionPassword": f"${{env.{PASSWORD}}}",
        # The first one that opens it makes its tables; Spark brings no scripts for that.
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
    }
    return {"spark.sql.catalogImplementation": "hive"} | {f"spark.hadoop.{key}": value for key, value in known.items()}
