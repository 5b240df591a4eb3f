"""Host name of an Airflow that is on one machine: where its log server listens, and nobody else can ask."""

from __future__ import annotations


def host_name() -> str:
    """Return the name, for Airflow's ``hostname_callable``."""
    return "127.0.0.1"
