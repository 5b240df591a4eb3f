"""Models of a definition's pipeline-level fields: name, schedule, trigger, owner, database."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationInfo, field_validator

from sluicegate.definition.fields import IDENTIFIER, Part, Schedule, Text, field_error, name_fault
from sluicegate.definition.pipeline.airflow import AirflowSettings
from sluicegate.definition.pipeline.alerts import Alerts
from sluicegate.definition.pipeline.maintenance import Maintenance
from sluicegate.definition.pipeline.notify import Notify
from sluicegate.definition.pipeline.params import Param
from sluicegate.definition.pipeline.targets import Target
from sluicegate.definition.pipeline.verify_schedule import Verify as Verify


class Database(Part):
    """Database of the tables in the catalog.

    Attributes:
        name: its name in the catalog.
        comment: its description.
        properties: its properties, such as ``contains_pii``.
    """

    name: str
    comment: str = ""
    properties: dict[str, Text] = {}

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not IDENTIFIER.fullmatch(name):
            message = f"{name} is not a name: letters, digits and _ are allowed, with a letter or _ first"
            raise field_error("name", message)
        return name


class Header(Part):
    """Pipeline-level fields; see ``Pipeline``."""

    name: str
    description: str = ""
    schedule: Schedule | None = None
    trigger: Literal["file_arrival"] | None = None
    queueUrl: str | None = None
    tasks: Literal["layers", "run"] = "layers"
    # No longer than Airflow takes them: it would have no DAG of that file, and no more than an import error.
    owner: str = Field(default="sluicegate", max_length=500)
    tags: list[Annotated[str, Field(min_length=1, max_length=100)]] = []
    notify: list[Notify] = []
    alerts: Alerts | None = None
    airflow: AirflowSettings | None = None
    maintenance: Maintenance | None = None
    verify: Verify | None = None
    database: Database | None = None
    params: dict[str, Param] = {}
    targets: dict[str, Target] = {}

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if fault := name_fault(name):
            raise field_error("name", fault)
        return name

    @field_validator("queueUrl")
    @classmethod
    def _check_queue_url(cls, url: str | None, info: ValidationInfo) -> str | None:
        if url is not None and urlsplit(url).scheme not in ("https", "http"):
            raise field_error("queueUrl", f"{url} is not an SQS queue URL such as https://sqs.REGION…/NAME")
        if url is not None and info.data.get("trigger") is None:
            raise field_error("queueUrl", "a queue requires trigger: file_arrival")
        return url
