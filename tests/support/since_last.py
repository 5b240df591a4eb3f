"""What a verification since the last one finds in silver and gold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicegate.flow.verification.sample import Sample
from sluicegate.gold import verify_gold
from sluicegate.launch import verification
from sluicegate.silver import verify_silver
from tests.conftest import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Findings = dict[str, list[tuple[str, str, str]]]
"""Kinds, reasons and sentences of what is found, by table."""


def since_last(spark: SparkSession, workspace: Workspace) -> Findings:
    """Verify silver and gold since the last proofs, as the job does."""
    pipeline, lake = workspace.definition, workspace.lake
    proofs = verification.proofs_of(pipeline, Sample(), since_last=True)
    findings = [
        *verify_silver.prove(spark, pipeline, lake, proofs=proofs),
        *verify_gold.prove(spark, pipeline, lake, proofs=proofs),
    ]
    verification.forget_doubtful(pipeline, findings, proofs)
    by_table: Findings = {}
    for finding in findings:
        by_table.setdefault(finding.table, []).append((finding.kind, finding.reason, finding.what))
    return by_table


def kinds(findings: Findings) -> dict[str, list[tuple[str, str]]]:
    """Leave the sentences out."""
    return {table: [finding[:2] for finding in of_table] for table, of_table in findings.items()}
