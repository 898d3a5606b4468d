"""What keeps a foreign web page from acting here through the browser of a person who visits it.

A browser sends some requests of any page to any server: forms, and what looks like one. It says of them where they come from
(`Origin`, `Sec-Fetch-Site`), and it asks the server first before it sends JSON or a header of the page's own choice. So what
a browser calls foreign is refused everywhere, and a change has to be JSON (of events, wakeful.intake.cloudevents sees to that).
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import Headers

from wakeful.http.problem import Problem

# Headers that the guard reads for this.
READ = frozenset({b"origin", b"sec-fetch-site"})
JSON = "application/json"


def problem_of_page(headers: Mapping[bytes, bytes], own: frozenset[bytes]) -> Problem | None:
    """Refuse what a browser sends for a page of another server. `own` has further names under which this one is reached."""
    site = headers.get(b"sec-fetch-site")
    origin = headers.get(b"origin")
    if site is not None and b"cross-site" in site.lower():  # also where it came twice
        field = "Sec-Fetch-Site"
    elif origin is None:
        return None
    else:
        place = origin.partition(b"://")[2].lower()
        if place and (place == headers[b"host"].lower() or place in own):
            return None
        field = "Origin"
    detail = (
        "a page of another server sent this: open the address of this server itself. A program that is no browser "
        "leaves Origin and Sec-Fetch-Site out; the name of a proxy is allowed with allowed_hosts or --allow-host"
    )
    return Problem(403, detail, kind="foreign-page", title="Pages of other servers may not call this one", field=field)


def refuse_forms(headers: Headers) -> None:
    """Refuse a change that is not JSON, and so could be a form of a foreign page. Where the body is empty, the header with the token
    will do: a browser does not send that either without asking first.
    """
    if headers.get("content-type", "").partition(";")[0].strip().lower() == JSON:
        return
    if "authorization" in headers and "transfer-encoding" not in headers and headers.get("content-length", "0") == "0":
        return
    raise Problem(
        415,
        "a request that changes something is JSON: send Content-Type: application/json, with an empty body too",
        kind="unsupported-content-type",
        title="Changes are sent as JSON",
        field="Content-Type",
    )
