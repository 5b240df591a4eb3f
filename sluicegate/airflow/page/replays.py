"""Replays that the page starts: a DAG run in the mode ``replay``, and an entry in Airflow's audit log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex

from airflow.api.common.trigger_dag import trigger_dag
from airflow.configuration import conf
from airflow.exceptions import DagNotFound, DagRunAlreadyExists
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.sdk.exceptions import ParamValidationError
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from sluicegate.airflow.params import REPLAY
from sluicegate.errors import UserError

EVENT = "lakehouse_replay"
"""Event of the audit log."""


@dataclass(frozen=True)
class Replayed:
    """A replay that a person confirms.

    Attributes:
        pipeline: the pipeline, and id of its DAG.
        table: the silver table.
        rule: the rule that its records broke; empty for all in quarantine.
        records: records in quarantine that it evaluates.
        version: the state of the quarantine that was shown.
        run_id: id of the run: a form that is sent twice starts one.
    """

    pipeline: str
    table: str
    rule: str
    records: int
    version: str
    run_id: str

    def subject(self) -> tuple[str, ...]:
        """What a form for it is sealed for."""
        return (EVENT, self.pipeline, self.table, self.rule, str(self.records), self.version, self.run_id)


def new_run_id(table: str) -> str:
    """Id of a run that nobody has yet."""
    return f"replay__{table}_{datetime.now(UTC):%Y%m%dT%H%M%S}_{token_hex(4)}"


def is_paused(pipeline: str) -> bool:
    """Whether the DAG is paused, so that a run of it would wait."""
    with create_session(scoped=False) as session:
        found = session.get(DagModel, pipeline)
        return bool(found is not None and found.is_paused)


def start(replayed: Replayed, user: str, name: str) -> None:
    """Starts the DAG run of a replay, with its entry in the audit log in one transaction; once, however often sent.

    Args:
        replayed: what is replayed.
        user: id of the user in Airflow's log.
        name: the user's name.

    Raises:
        UserError: Airflow does not have the DAG, its form has no replay, or Airflow ignores what forms say.
    """
    _demand_a_run_would_replay(replayed.pipeline)
    rules = [replayed.rule] if replayed.rule else None
    form = {"mode": REPLAY, "tables": [replayed.table], "rules": rules}
    extra = {"table": replayed.table, "rules": rules, "records": replayed.records, "quarantine": replayed.version}
    try:
        with create_session(scoped=False) as session:
            trigger_dag(
                replayed.pipeline, triggered_by=DagRunTriggeredByType.UI, triggering_user_name=name,
                run_id=replayed.run_id, conf=form, session=session,
            )  # fmt: skip
            session.add(
                Log(EVENT, owner=user, owner_display_name=name, extra=json.dumps(extra), dag_id=replayed.pipeline,
                    run_id=replayed.run_id)
            )  # fmt: skip
    except DagRunAlreadyExists:
        return
    except IntegrityError:  # the same form, sent twice at the same moment
        with create_session(scoped=False) as session:
            if not session.scalar(select(DagRun).where(DagRun.run_id == replayed.run_id)):
                raise
    except (DagNotFound, ParamValidationError, ValueError) as error:
        raise UserError(
            f"Airflow could not start a run of {replayed.pipeline}: {error}",
            hint="look for the DAG and its import errors in Airflow; its form must have the mode replay",
        ) from error


def _demand_a_run_would_replay(pipeline: str) -> None:
    """Checks what would make of a replay a run that waits for long, or that does something else.

    Raises:
        UserError: the DAG is gone or has import errors, or runs do not get the values of a form.
    """
    if not conf.getboolean("core", "dag_run_conf_overrides_params"):
        raise UserError(
            "this Airflow ignores what a form says ([core] dag_run_conf_overrides_params is off)",
            hint="turn that on, or use `sluicegate replay`",
        )
    with create_session(scoped=False) as session:
        found = session.get(DagModel, pipeline)
        if found is None or found.is_stale or found.has_import_errors:
            raise UserError(
                f"Airflow cannot start a run of {pipeline}: its DAG is gone or has import errors",
                hint="look for its import errors in Airflow",
            )
