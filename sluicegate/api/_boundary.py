"""What every function of the public face has in common: it is silent, and raises errors of ours."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from sluicegate.storage import store_errors

Arguments = ParamSpec("Arguments")
Given = TypeVar("Given")


def silent(_line: str) -> None:
    """Takes a line for people, and leaves it."""


def in_our_words(function: Callable[Arguments, Given]) -> Callable[Arguments, Given]:
    """Raises what an object store refuses as an error of ours, as the command line does."""

    @wraps(function)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Given:
        try:
            return function(*args, **kwargs)
        except Exception as raised:
            of_store = store_errors.readable(raised)
            if of_store is None:
                raise
            raise of_store from raised

    return wrapped
