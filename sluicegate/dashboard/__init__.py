"""What the Lakehouse page, its ``.json`` twins and ``sluicegate report`` show: typed results, read without a JVM."""
