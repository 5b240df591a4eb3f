"""Sensors and triggers of a DAG."""
