"""Sensors and triggers: what a DAG waits for."""
