"""OpenLineage of a task: the table versions that its job read and wrote, their columns, and counts of expectations.

Airflow's provider makes the events and sends them where a transport is configured; without one nothing is done here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sluicegate.lake.commits.commit_info import CommitInfo

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset
    from openlineage.client.facet_v2 import DatasetFacet

    from sluicegate.definition import Layer, Pipeline
    from sluicegate.flow.model import Flow
    from sluicegate.lake.layout import Lake
    from sluicegate.lake.log import Commit

# Commits of one try are few; a table's whole log is read only where there are more than these.
NEWEST = 20

# Spark's name of a scheme, and OpenLineage's.
SCHEMES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}


def is_enabled() -> bool:
    """Whether the provider is installed and has a transport."""
    try:
        from airflow.providers.openlineage import conf
    except ImportError:
        return False
    return not conf.is_disabled()


def try_lineage(
    pipeline: Pipeline, lake: Lake, layers: Sequence[Layer], run_id: str, attempt: int
) -> OperatorLineage[Any, Any]:
    """Lineage of one try of a task: tables that it wrote and their inputs, also where it failed after some commits.

    Taken from the commits themselves, so a table that was idle or only read is not reported.

    Args:
        pipeline: the definition.
        lake: its lake.
        layers: what the task runs of bronze, silver and gold.
        run_id: the run, as in the commit info.
        attempt: number of the try.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage

    # not above: parsing a DAG file needs neither pyarrow nor deltalake
    from sluicegate.airflow.reporting.column_lineage import ColumnFacets
    from sluicegate.flow.flows import flows
    from sluicegate.monitor.lineage import QUARANTINE

    columns = ColumnFacets(pipeline, lake, dataset)
    inputs: dict[str, InputDataset] = {}
    outputs: list[OutputDataset] = []
    for name, flow in [item for layer in layers for item in flows(pipeline, lake, layer).items()]:
        commits = list(_commits(flow.target, run_id, attempt))
        if not commits:
            continue
        last = commits[0].info
        inputs |= _sources(pipeline, name, flow, last)
        for table, uri in flow.inputs.items():
            inputs.setdefault(uri, _input(uri, last.inputs[table].rpartition("@")[2], {}))
        rows = sum(map(_written_rows, commits))
        outputs.append(_output(flow.target, commits[0].version, rows, columns.table_facet(name)))
        quarantined = sum(commit.info.silver.quarantined or 0 for commit in commits)
        if quarantined:
            outputs.append(
                _output(lake.quarantine(name), None, quarantined, columns.table_facet(f"{name}{QUARANTINE}"))
            )
    return OperatorLineage(inputs=list(inputs.values()), outputs=outputs)


def _sources(pipeline: Pipeline, name: str, flow: Flow, last: CommitInfo) -> dict[str, InputDataset]:
    """What a table follows, as of a commit: a landing folder, or tables with their versions."""
    expectations = last.expectations
    if flow.layer == "bronze" and pipeline.bronze[name].format != "delta":
        path = pipeline.bronze[name].path
        return {path: _input(path, None, expectations)}
    return {uri: _input(uri, version, expectations) for uri, version in _followed_tables(flow, last).items()}


def _followed_tables(flow: Flow, last: CommitInfo) -> dict[str, Any]:
    """Tables that a flow follows, each with the version that a commit has taken in."""
    streams = last.streams or {}
    if not flow.streams:
        return {flow.source: last.until}
    return {uri: streams[name]["until"] for name, uri in flow.streams.items() if name in streams}


def _commits(uri: str, run_id: str, attempt: int) -> Iterator[Commit]:
    """Commits of a try in a table, newest first."""
    from sluicegate.lake import log, tables

    table = tables.delta_table(uri)
    if table is None:
        return
    # Only one try works at a time, so below another try's commit there is none of this one.
    of_tries = [commit for commit in log.commits(table, NEWEST) if commit.ours]
    of_run = [commit for commit in of_tries if commit.ours and _is_of_try(commit.ours, run_id, attempt)]
    if of_run and of_run[-1] is of_tries[-1]:
        of_run = [commit for commit in log.commits(table) if commit.ours and _is_of_try(commit.ours, run_id, attempt)]
    yield from of_run


def _is_of_try(info: CommitInfo, run_id: str, attempt: int) -> bool:
    return info.run_id == run_id and info.attempt == attempt


def _written_rows(commit: Commit) -> int:
    if commit.info.written is None:
        return commit.rows_written or 0
    return commit.info.written


def _input(uri: str, version: Any, expectations: Mapping[str, Mapping[str, int]]) -> InputDataset:
    """Input dataset: a folder or table that was read, with the counts of expectations on its rows.

    OpenLineage puts assertions on inputs, since other testing tools only read.
    """
    from openlineage.client.event_v2 import InputDataset
    from openlineage.client.facet_v2 import InputDatasetFacet, data_quality_assertions_dataset

    assertions = [
        data_quality_assertions_dataset.Assertion(assertion=rule, success=not counts["failed"], params=dict(counts))
        for rule, counts in expectations.items()
    ]
    facets: dict[str, InputDatasetFacet] = {}
    if assertions:
        facets["dataQualityAssertions"] = data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(assertions)
    namespace, name = dataset(uri)
    return InputDataset(namespace, name, facets=_version(version), inputFacets=facets)


def _output(uri: str, version: int | None, rows: int, columns: dict[str, DatasetFacet]) -> OutputDataset:
    from openlineage.client.event_v2 import OutputDataset
    from openlineage.client.facet_v2 import output_statistics_output_dataset

    count = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=rows)
    namespace, name = dataset(uri)
    facets = {**_version(version), **columns}
    return OutputDataset(namespace, name, facets=facets, outputFacets={"outputStatistics": count})


def _version(version: Any) -> dict[str, Any]:
    from openlineage.client.facet_v2 import dataset_version_dataset

    if version is None:
        return {}
    return {"version": dataset_version_dataset.DatasetVersionDatasetFacet(str(version))}


def dataset(uri: str) -> tuple[str, str]:
    """Namespace and name of a path or URI.

    They follow OpenLineage's naming specification, so that events of other programs about the same table meet ours.
    """
    address = urlsplit(uri)
    if address.scheme in ("", "file"):
        from sluicegate.lake.layout import local_path

        return "file", local_path(uri)
    scheme = SCHEMES.get(address.scheme, address.scheme)
    # The name is the key in an object store; HDFS has paths.
    path = uri.split("://", 1)[-1].partition("/")[2]
    return f"{scheme}://{address.netloc}", f"/{path}" if scheme == "hdfs" else path
