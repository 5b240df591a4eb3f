"""Queue of an object store's notifications: Amazon's SQS, and what speaks its protocol."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from threading import Lock
from typing import Any

from sluicegate.errors import UserError

# Longest wait of one SQS receive, in seconds; waiting costs nothing, asking does.
LONG_POLL = 20

# Messages that SQS gives at a time, at most.
AT_ONCE = 10

KEYS = {
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_session_token": "AWS_SESSION_TOKEN",
}

# One thread at a time makes a client of the session that all have: boto3's are not safe in that.
_MAKES = Lock()


class Queue:
    """Messages of one queue. Their content is not read: any message is a reason to list landing.

    Args:
        url: URL of the queue, as SQS gives it.
        said: variables that take precedence over the environment (see ``connections.variables``).

    Raises:
        UserError: boto3 is not installed.
    """

    def __init__(self, url: str, variables: Mapping[str, str]) -> None:
        environment = {**os.environ, **variables}
        self.url = url
        try:
            with _MAKES:
                self._sqs: Any = _session().client(
                    "sqs",
                    endpoint_url=environment.get("AWS_ENDPOINT_URL_SQS") or environment.get("AWS_ENDPOINT_URL") or None,
                    region_name=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or None,
                    **{option: variables.get(name) or None for option, name in KEYS.items()},
                )
        except ImportError:
            raise UserError(
                "queueUrl requires boto3, which is not installed where Airflow's triggerer runs",
                hint="install sluicegate[sqs] there",
            ) from None

    def receive(self, seconds: int | None = None) -> list[str]:
        """Return receipts of the queue's messages, and wait up to ``seconds`` for some."""
        wait = LONG_POLL
        if seconds is not None:
            wait = seconds
        answer = self._sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=AT_ONCE, WaitTimeSeconds=wait)
        return [message["ReceiptHandle"] for message in answer.get("Messages", ())]

    def delete(self, receipts: list[str]) -> None:
        """Delete messages of a ``receive`` for good; those that are not deleted come again."""
        entries = [{"Id": str(number), "ReceiptHandle": receipt} for number, receipt in enumerate(receipts)]
        self._sqs.delete_message_batch(QueueUrl=self.url, Entries=entries)


@cache
def _session() -> Any:
    """Return the boto3 session of all queues: each session takes 8 MB, and 200 pipelines may have a queue."""
    import boto3

    return boto3.Session()
