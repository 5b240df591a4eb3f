"""Operators: what the tasks of a DAG do."""
