"""What the page starts: a DAG run in the mode ``replay`` or that of a discard, and an entry in Airflow's audit log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, ClassVar, Protocol

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

from sluicegate.airflow.dags.params import REPLAY
from sluicegate.errors import UserError


class Confirmed(Protocol):
    """What a person asks for and confirms.

    Attributes:
        pipeline: the pipeline, and id of its DAG.
        run_id: id of the run: a form that is sent twice starts one.
        event: event of the audit log.
    """

    @property
    def pipeline(self) -> str: ...

    @property
    def run_id(self) -> str: ...

    @property
    def event(self) -> str: ...

    def subject(self) -> tuple[str, ...]:
        """Return the subject for which the form is sealed."""

    def form(self) -> dict[str, Any]:
        """Return the values of the DAG's form."""

    def audit_fields(self) -> dict[str, Any]:
        """Return the text of the entry in the audit log."""


@dataclass(frozen=True)
class Quarantined:
    """Records in quarantine that a person is shown, and confirms something for.

    Attributes:
        pipeline: the pipeline, and id of its DAG.
        table: the silver table.
        rule: the rule that its records broke; empty for all in quarantine.
        records: records that wait in quarantine.
        version: the state of the quarantine that was shown.
        run_id: id of the run: a form that is sent twice starts one.
    """

    pipeline: str
    table: str
    rule: str
    records: int
    version: str
    run_id: str

    event: ClassVar[str]

    @property
    def rules(self) -> list[str] | None:
        """Rules that select records; None for all."""
        if self.rule:
            return [self.rule]
        return None

    def subject(self) -> tuple[str, ...]:
        """Return the subject for which the form is sealed: all that the page showed."""
        return (self.event, self.pipeline, self.table, self.rule, str(self.records), self.version, self.run_id)

    def audit_fields(self) -> dict[str, Any]:
        """Return the selection of records, and the figures that the page showed."""
        return {"table": self.table, "rules": self.rules, "records": self.records, "quarantine": self.version}


@dataclass(frozen=True)
class Replayed(Quarantined):
    """A replay that a person confirms; it evaluates the records."""

    event = "lakehouse_replay"

    def form(self) -> dict[str, Any]:
        """Return the mode and the selection of records."""
        return {"mode": REPLAY, "tables": [self.table], "rules": self.rules}


def new_run_id(table: str, prefix: str = "replay") -> str:
    """Return a run id that is not in use."""
    return f"{prefix}__{table}_{datetime.now(UTC):%Y%m%dT%H%M%S}_{token_hex(4)}"


def start(confirmed: Confirmed, user: str, name: str) -> None:
    """Start the DAG run and log it for audit in one transaction, once however often a form is sent.

    Args:
        confirmed: the confirmed action.
        user: id of the user in Airflow's log.
        name: the user's name.

    Raises:
        UserError: Airflow does not have the DAG, its form lacks the mode, or Airflow ignores the values of forms.
    """
    _demand_runnable(confirmed.pipeline)
    form = confirmed.form()
    try:
        with create_session(scoped=False) as session:
            trigger_dag(
                confirmed.pipeline, triggered_by=DagRunTriggeredByType.UI, triggering_user_name=name,
                run_id=confirmed.run_id, conf=form, session=session,
            )  # fmt: skip
            session.add(
                Log(confirmed.event, owner=user, owner_display_name=name, extra=json.dumps(confirmed.audit_fields()),
                    dag_id=confirmed.pipeline, run_id=confirmed.run_id)
            )  # fmt: skip
    except DagRunAlreadyExists:
        return
    except IntegrityError:  # the same form, sent twice at the same moment
        with create_session(scoped=False) as session:
            if not session.scalar(select(DagRun).where(DagRun.run_id == confirmed.run_id)):
                raise
    except (DagNotFound, ParamValidationError, ValueError) as error:
        raise UserError(
            f"Airflow could not start a run of {confirmed.pipeline}: {error}",
            hint=f"check the DAG and its import errors in Airflow; its form must offer the mode {form['mode']}",
        ) from error


def _demand_runnable(pipeline: str) -> None:
    """Refuse to start a run that would be delayed for long, or would ignore the form.

    Raises:
        UserError: the DAG is gone or has import errors, or runs do not get the values of a form.
    """
    if not conf.getboolean("core", "dag_run_conf_overrides_params"):
        raise UserError(
            "this Airflow ignores forms ([core] dag_run_conf_overrides_params is off)",
            hint="turn it on, or use the command line",
        )
    with create_session(scoped=False) as session:
        dag = session.get(DagModel, pipeline)
        if dag is None or dag.is_stale or dag.has_import_errors:
            raise UserError(
                f"Airflow cannot start a run of {pipeline}: its DAG is missing or has import errors",
                hint="check its import errors in Airflow",
            )
