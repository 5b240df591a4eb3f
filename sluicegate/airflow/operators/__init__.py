"""Operators of a DAG's tasks."""
