"""Job of a run: run the layers of a pipeline one after another in one Spark.

Each layer does what its own job would do, under its own hold of the pipeline's lock, and ends with a report line. The
next layer starts only if it succeeded, so a failure leaves the same state as a failed job of that layer.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sluicegate.console import say
from sluicegate.definition import LAYERS
from sluicegate.errors import UserError
from sluicegate.flow import flows
from sluicegate.flow.progress import progress
from sluicegate.flow.report import RunReport
from sluicegate.jobs import base
from sluicegate.jobs.layer_job import add_request, request_of, run_layer
from sluicegate.lake import layout
from sluicegate.launch.request import Request
from sluicegate.launch.run_mode import RunMode, demand_layer
from sluicegate.spark.session import SharedSpark

if TYPE_CHECKING:
    from sluicegate.definition import Layer, Pipeline

    SparkOf = Callable[[Pipeline, layout.Lake], SharedSpark]


def _own_spark(pipeline: Pipeline, lake: layout.Lake) -> SharedSpark:
    return SharedSpark(pipeline.name, lake, private=bool(pipeline.pii))


def parser() -> argparse.ArgumentParser:
    """Return the command line of ``spark_jobs/tools/run.py``."""
    job_parser = base.parser("run")
    job_parser.description = "Runs the layers of a pipeline one after another, in one Spark."
    job_parser.add_argument("--layers", metavar="NAMES", help="only these layers, comma-separated (default: all)")
    add_request(job_parser, files=True)
    job_parser.add_argument("--follow", action="store_true", help="also run the tables downstream of --tables")
    return job_parser


def main(argv: Sequence[str] | None = None, spark_of: SparkOf = _own_spark) -> int:
    """Run the whole of ``spark_jobs/tools/run.py``; the exit codes are those of ``jobs.layer_job.main``.

    Args:
        argv: the command line; by default the process's own.
        spark_of: returns the Spark for a pipeline in a lake, which is opened when a table first needs it.
    """
    return base.run_all_guarded(lambda: _run(parser().parse_args(argv), spark_of))


def _run(arguments: argparse.Namespace, spark_of: SparkOf) -> Iterator[RunReport]:
    pipeline, lake, facts = base.job_context(arguments)
    layers = _layers(arguments.layers)
    request = request_of(pipeline, arguments)
    if not any(request.names(pipeline, layer) for layer in layers):
        raise UserError(
            f"{pipeline.name} has none of these tables in these layers", hint="leave out --layers or --tables"
        )
    return Run(pipeline, lake, facts, spark_of(pipeline, lake)).reports(request, layers, follow=arguments.follow)


def _layers(names: str | None) -> list[Layer]:
    chosen = names.split(",") if names else LAYERS
    for name in chosen:
        demand_layer(name)
    return [layer for layer in LAYERS if layer in chosen]


class Run:
    """Layers of a pipeline that share one Spark, which starts only when one has work.

    Args:
        pipeline: the definition.
        lake: the lake.
        facts: facts on the run for every commit.
        spark: a Spark to use instead of a new one.
    """

    def __init__(
        self, pipeline: Pipeline, lake: layout.Lake, facts: Mapping[str, Any], spark: SharedSpark | None = None
    ) -> None:
        self.pipeline, self.lake, self.facts = pipeline, lake, facts
        self.spark = spark or _own_spark(pipeline, lake)

    def reports(self, request: Request, layers: Sequence[Layer], *, follow: bool = False) -> Iterator[RunReport]:
        """Run the layers, and yield the report of each as soon as it has ended.

        Args:
            request: the request of the run.
            layers: layers in order. After an interval, gold runs only if it has work.
            follow: whether tables downstream of those of the request are updated, too.

        Raises:
            SluicegateError: a layer failed; those after it were not run.
        """
        begun = False
        for layer in layers:
            if request.names(self.pipeline, layer):
                yield from self._layer_reports(layer, request, begun=begun)
                begun = True
            if follow and begun and layer != "bronze" and self._is_waiting(layer):
                yield self._layer(layer, Request())

    def _layer_reports(self, layer: Layer, request: Request, *, begun: bool) -> Iterator[RunReport]:
        """Run a layer's part of a request; gold after an interval of silver only if silver changed."""
        if begun and layer == "gold" and request.mode == RunMode.INTERVAL:
            yield from self.gold(request)
        else:
            yield self._layer(layer, request.layer_request(layer))

    def gold(self, request: Request) -> Iterator[RunReport]:
        """Run gold if silver changed."""
        gold_flows = flows.flows(self.pipeline, self.lake, "gold")
        if any(progress(gold_flows[name]).has_work for name in request.names(self.pipeline, "gold")):
            yield self._layer("gold", request.layer_request("gold"))
        else:
            say("gold is up to date: no row of silver changed")

    def _layer(self, layer: Layer, request: Request) -> RunReport:
        report = run_layer(self.pipeline, self.lake, layer, self.facts, request, self.spark)
        self.spark.clear_cache()
        return report

    def _is_waiting(self, layer: Layer) -> bool:
        return any(progress(flow).has_waiting_changes for flow in flows.flows(self.pipeline, self.lake, layer).values())
