"""Ids of DAGs: each leads to its pipeline."""

from __future__ import annotations

import pytest

from sluicegate.definition.dag_ids import LONGEST, dag_ids, pipeline_of

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


def test_any_folder_has_ids_that_airflow_takes() -> None:
    """Of letters, digits, - . and _, and of LONGEST characters at most."""
    assert dag_ids("köln v1.2") == ("köln-v1.2", "köln-v1.2_maintenance", "köln-v1.2_verify", "köln-v1.2_alerts")
    assert dag_ids("")[0] == "-"
    assert pipeline_of("a-b_verify", ["a b"]) == "a b"
    assert dag_ids("x" * LONGEST)[0] == "x" * LONGEST
    ids = dag_ids("x" * (LONGEST + 1))
    assert {len(one) for one in ids} == {LONGEST}
    assert len(set(ids)) == len(ids)
