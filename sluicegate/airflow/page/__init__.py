"""The Lakehouse page: results of ``dashboard`` as HTML and JSON, in Airflow's own server and behind its login.

``app`` and ``access`` import Airflow; ``html`` and what it needs do not, as ``sluicegate report`` uses them, too.
"""
