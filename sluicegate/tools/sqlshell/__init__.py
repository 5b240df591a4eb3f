"""``sluicegate sql``: tables read by DuckDB, without a JVM."""
