"""What an object store refuses, by the words of whoever met it, as a sentence with what to do."""

from __future__ import annotations

import pytest

from sluicegate.errors import SluicegateError, StoreRefused, UserError
from sluicegate.storage.store_errors import REFUSALS, translate_error

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("sign", "message"), [(sign, refusal.message) for refusal in REFUSALS for sign in refusal.signs]
)
def test_each_sign_of_a_refusal_is_its_sentence(sign: str, message: str) -> None:
    raised = RuntimeError(f"s3a://lake/things: the request failed\n\tat com.amazonaws.{sign}\n  {sign} it said")
    said = translate_error(raised)
    assert said is not None
    assert (said.message, said.cause, said.where.file) == (message, f"{sign} it said", "s3a://lake/things")
    assert said.hint
    private = translate_error(raised, private=True)
    assert private is not None
    assert (private.message, private.cause, private.where.file) == (message, "", None)


def test_a_refusal_of_the_bucket_comes_before_one_of_the_network() -> None:
    said = translate_error(RuntimeError("AWS max_retries: AccessDenied"))
    assert isinstance(said, StoreRefused)
    assert said.message == "the object store denied access"


@pytest.mark.parametrize(
    "raised", [RuntimeError("AccessDenied to a folder"), OSError("AWS says hello"), UserError("S3")]
)
def test_what_is_no_refusal_of_a_store_is_left_alone(raised: Exception) -> None:
    assert translate_error(raised) is None


def test_no_sign_belongs_to_two_refusals() -> None:
    signs = [sign for refusal in REFUSALS for sign in refusal.signs]
    assert len(signs) == len(set(signs))
    assert all(issubclass(refusal.error, SluicegateError) for refusal in REFUSALS)
