"""Ids of DAGs: each leads to its pipeline."""

from __future__ import annotations

import pytest

from sluicegate.definition.dag_ids import dag_ids, pipeline_of

pytestmark = pytest.mark.unit


def test_each_dag_leads_to_its_pipeline() -> None:
    ids = dag_ids("shop")
    assert ids == ("shop", "shop_maintenance", "shop_verify", "shop_alerts")
    assert {pipeline_of(one, ["other", "shop"]) for one in ids} == {"shop"}
    assert pipeline_of("shop_other", ["shop"]) is None


@pytest.mark.parametrize("names", [["shop", "shop_alerts"], ["shop_alerts", "shop"]])
def test_a_pipeline_comes_before_anothers_dag_of_its_name(names: list[str]) -> None:
    assert pipeline_of("shop_alerts", names) == "shop_alerts"
    assert pipeline_of("shop_alerts_verify", names) == "shop_alerts"
