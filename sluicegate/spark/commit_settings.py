"""Settings of a session by which each Delta write in it carries an offset and metadata.

Spark's writers read them by themselves; writes without Spark get them from ``facts``.
https://docs.delta.io/latest/delta-streaming.html#idempotent-table-writes-in-foreachbatch
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicegate.lake.commits.small_commits import Facts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_METADATA, _APP_ID, _VERSION, _EMPTY = (
    f"spark.databricks.delta.{name}"
    for name in ("commitInfo.userMetadata", "write.txnAppId", "write.txnVersion", "skipRecordingEmptyCommits")
)

# Setting of ours, of which Spark's writers know nothing: whether rows may have personal data.
_PRIVATE = "spark.sluicegate.private"

# Settings with which Spark's writers say nothing of a batch.
NOTHING = dict.fromkeys((_METADATA, _APP_ID, _VERSION))


def settings(facts_of_commit: Facts) -> dict[str, str]:
    """Return the session settings that put these facts into Spark's commits."""
    # A commit's metadata counts where no row changes, too: which versions were read, and that a batch is closed.
    settings_of_commit = {_EMPTY: "false", _PRIVATE: str(facts_of_commit.private).lower()}
    if facts_of_commit.metadata is not None:
        settings_of_commit[_METADATA] = facts_of_commit.metadata
    if facts_of_commit.app_id is not None:
        settings_of_commit |= {_APP_ID: facts_of_commit.app_id, _VERSION: str(facts_of_commit.version)}
    return settings_of_commit


def facts(session: SparkSession) -> Facts:
    """Return the facts that Spark's commits of this session carry."""
    metadata, app_id, version = (session.conf.get(name, None) for name in (_METADATA, _APP_ID, _VERSION))
    return Facts(metadata, app_id, int(version or 0), session.conf.get(_PRIVATE, None) == "true")
