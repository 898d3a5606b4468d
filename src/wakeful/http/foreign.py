"""Keeps a foreign web page from acting here through the browser of a person who visits it.

A browser sends some requests of any page to any server: forms, and requests that look like forms. It marks their origin (`Origin`,
`Sec-Fetch-Site`), and asks the server before it sends JSON or custom headers. So requests marked as foreign are refused everywhere,
and a change must be JSON (for events, wakeful.intake.cloudevents checks that).
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import Headers

from wakeful.http.problem import Problem

# Headers that the guard reads for this check.
READ = frozenset({b"origin", b"sec-fetch-site"})
JSON = "application/json"


def problem_of_page(headers: Mapping[bytes, bytes], own: frozenset[bytes]) -> Problem | None:
    """The refusal of a request that a browser sends for a page of another server. `own`: further names of this server."""
    site = headers.get(b"sec-fetch-site")
    origin = headers.get(b"origin")
    if site is not None and b"cross-site" in site.lower():  # also if the header came twice
        field = "Sec-Fetch-Site"
    elif origin is None:
        return None
    else:
        place = origin.partition(b"://")[2].lower()
        if place and (place == headers[b"host"].lower() or place in own):
            return None
        field = "Origin"
    detail = (
        "a page of another server sent this: open the address of this server itself. A program that is not a browser "
        "omits Origin and Sec-Fetch-Site; allow the name of a proxy with allowed_hosts or --allow-host"
    )
    return Problem(403, detail, kind="foreign-page", title="Pages of other servers may not call this one", field=field)


def problem_of_form(headers: Mapping[bytes, bytes], own: frozenset[bytes]) -> Problem | None:
    """As `problem_of_page`, for a form of our own page that needs no token. A page that sends no referrer sends no origin with its
    forms either: then only the browser's word about the site counts.
    """
    if headers.get(b"origin") == b"null" and headers.get(b"sec-fetch-site", b"same-origin") in {
        b"same-origin",
        b"none",
    }:
        return None
    if headers.get(b"sec-fetch-site", b"same-origin") not in {b"same-origin", b"none"}:
        return problem_of_page({**headers, b"sec-fetch-site": b"cross-site"}, own)
    return problem_of_page(headers, own)


def refuse_forms(headers: Headers) -> None:
    """Refuse a change that is not JSON, because it could be a form of a foreign page. With an empty body, the Authorization header is
    enough: a browser does not send that without asking first either.
    """
    if headers.get("content-type", "").partition(";")[0].strip().lower() == JSON:
        return
    if "authorization" in headers and "transfer-encoding" not in headers and headers.get("content-length", "0") == "0":
        return
    raise Problem(
        415,
        "a change must be JSON: send Content-Type: application/json, also with an empty body",
        kind="unsupported-content-type",
        title="Changes are sent as JSON",
        field="Content-Type",
    )
