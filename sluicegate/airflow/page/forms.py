"""Forms of the page that start something: whose they are, from where they come, and what they hold.

A form has a seal of what it asks for, keyed by the token of the login that it was shown to. Another site can make a
browser send that login's cookie, but can neither read it nor make a seal with it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from airflow.configuration import conf
from fastapi import Depends, HTTPException, Request, status

LONGEST = 16_384
"""Bytes of a form; the longest that a page makes has the names of a table and of a rule, and a note."""

SEAL = "seal"
"""Name of the field that has the seal."""

_TYPE = "application/x-www-form-urlencoded"


class Forbidden(HTTPException):
    """An answer to who may see something, and may not do it, or not so.

    Args:
        detail: what is refused.
        hint: what to do.
    """

    def __init__(self, detail: str, hint: str) -> None:
        super().__init__(status.HTTP_403_FORBIDDEN, detail)
        self.hint = hint


def seal(request: Request, *subject: str) -> str:
    """Return the seal of a form's subject for the login of the request.

    Args:
        request: a request of the login.
        subject: all parts of the form's request that matter.

    Raises:
        Forbidden: the request has no login to key a seal with.
    """
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    key = bearer if scheme.lower() == "bearer" and bearer else request.cookies.get(COOKIE_NAME_JWT_TOKEN)
    if not key:
        raise Forbidden(
            "This form was sent without a login.", "Log in to Airflow, and open this page from its navigation."
        )
    text = json.dumps(["sluicegate", *subject])  # as a list: no two subjects are the same text
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def demand_seal(request: Request, fields: Mapping[str, str], *subject: str) -> None:
    """Check that the login that sends a form has seen it, for this very subject.

    Raises:
        Forbidden: it was not.
    """
    if not hmac.compare_digest(seal(request, *subject).encode(), fields.get(SEAL, "").encode()):
        raise Forbidden("This form was opened in another login.", "Open the page again, and confirm there.")


async def read_form(request: Request) -> dict[str, str]:
    """Read the fields of a form that a page of this server sent.

    Raises:
        Forbidden: another site sent it.
        HTTPException: 413 for one that is too long, 415 for what is no form, 400 for one that cannot be read.
    """
    _demand_own(request)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        raise HTTPException(status.HTTP_415_UNSUPPORTED_MEDIA_TYPE, "This address only accepts forms of this page.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST:
            raise HTTPException(413, "This form is too large.")
    try:
        form_fields = parse_qs(body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=20)
    except ValueError:
        raise HTTPException(status.HTTP_400_BAD_REQUEST, "This form cannot be read.") from None
    if any(len(values) != 1 for values in form_fields.values()):
        raise HTTPException(status.HTTP_400_BAD_REQUEST, "This form has a duplicate field.")
    return {name: values[0] for name, values in form_fields.items()}


@contextmanager
def refuse_incomplete() -> Iterator[None]:
    """Refuse a form when its fields are read and one is missing, or is a text in place of a number.

    Raises:
        HTTPException: 400.
    """
    try:
        yield
    except (KeyError, ValueError):
        raise HTTPException(status.HTTP_400_BAD_REQUEST, "A field of this form is missing.") from None


def _demand_own(request: Request) -> None:
    """Check the origin of a form by the browser's headers; without them the seal decides."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    # Behind a proxy the host of a request may be the proxy's name for this server, and not what a browser sees.
    hosts = {request.headers.get("host"), urlsplit(conf.get("api", "base_url", fallback="") or "").netloc}
    if site not in (None, "same-origin") or (
        origin is not None and site is None and urlsplit(origin).netloc not in hosts - {None, ""}
    ):
        raise Forbidden("This form was sent by another site.", "Open the page in Airflow, and confirm there.")


Sent = Annotated[dict[str, str], Depends(read_form)]
