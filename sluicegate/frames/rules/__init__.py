"""Expectations of rows and rules of tables, as conditions of Spark.

An *expectation* is a condition on each row, ``expect_table`` is about all rows, and a *rule* is either of them. How
they are written in a definition is in ``definition/tables``. Here they are evaluated, for all layers alike; each layer
has one module that says when, and what becomes of a row:

- ``bronze/record_rules.py``: before the commit of a ledger batch, whose records are all kept or all refused;
- ``silver/expectations.py``: by them a record goes to the table, to quarantine, or is set aside; ``expect_table`` is
  asked by ``silver/table_rules.py`` before the first of a batch's commits;
- ``gold/rules.py``: of the rows that a batch changes, going on from the counts of the last commit.
"""

from __future__ import annotations
