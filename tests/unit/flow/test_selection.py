"""Records that a person chooses to reprocess: what the words for them mean, and what they are as arguments of a job."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sluicegate.errors import UserError
from sluicegate.flow.selection import Interval, Replay
from tests.conftest import Workspace

pytestmark = pytest.mark.unit


def test_times_without_a_zone_are_UTC_and_days_begin_at_midnight() -> None:
    day = Interval.parse("2024-03-01", "2024-03-02T00:30:00+02:00")
    assert day == Interval(datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 3, 1, 22, 30, tzinfo=UTC))
    assert str(day) == "[2024-03-01 00:00:00, 2024-03-01 22:30:00)"
    assert day.facts() == {"mode": "interval", "interval": ["2024-03-01T00:00:00+00:00", "2024-03-01T22:30:00+00:00"]}
    assert (day.validate, day.everything) == (False, False)


@pytest.mark.parametrize("until", ["2024-03-01", "2024-03-01T00:00:00Z", "2024-02-29", "2024-03-01T01:00:00+01:00"])
def test_an_interval_that_does_not_end_after_its_beginning_is_empty(until: str) -> None:
    with pytest.raises(UserError, match="the interval is empty"):
        Interval.parse("2024-03-01", until)


@pytest.mark.parametrize(("since", "until"), [("soon", "2024-03-01"), ("2024-03-01", "2024-13-01")])
def test_what_is_no_time_is_refused(since: str, until: str) -> None:
    with pytest.raises(UserError, match="is not a time"):
        Interval.parse(since, until)


def test_the_smallest_interval_is_a_microsecond() -> None:
    assert Interval.parse("2024-03-01", "2024-03-01T00:00:00.000001").since == datetime(2024, 3, 1, tzinfo=UTC)


def test_only_silver_tables_with_an_event_time_have_intervals(workspace: Workspace) -> None:
    day, pipeline = Interval.parse("2024-03-01", "2024-03-02"), workspace.definition
    names = [*pipeline.bronze, *pipeline.silver, *pipeline.gold]
    assert [name for name in names if day.has_records_of(name, pipeline)] == ["recordings_enriched"]
    assert [name for name in names if Replay("patients").has_records_of(name, pipeline)] == ["patients"]


def test_a_replay_names_rules_of_the_definition_or_those_that_every_table_has(workspace: Workspace) -> None:
    """The latter have a blank in their names, and which a table has is known when its query is evaluated."""
    Replay("recordings_enriched", ("valid_heartrate", "device_id is not null")).demand(workspace.definition)
    with pytest.raises(UserError, match="valid_hart"):
        Replay("recordings_enriched", ("valid_hart",)).demand(workspace.definition)


def test_a_replay_is_handed_on_whole() -> None:
    replay = Replay("t", rules=("a", "k is not null"), dropped=True, validate=True)
    assert replay.arguments() == ["--table=t", "--rule=a", "--rule=k is not null", "--dropped", "--validate"]
    assert Replay("t", everything=True).arguments() == ["--table=t", "--everything"]
    assert replay.facts() == {
        "mode": "replay", "replayed": {"rules": ["a", "k is not null"], "dropped": True, "everything": False},
    }  # fmt: skip
