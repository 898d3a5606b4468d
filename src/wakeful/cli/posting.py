"""Sends requests to a server, with its token. The token is sent in plain text only to this machine, and never follows a
redirect.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from wakeful.errors import StoreUnavailable
from wakeful.settings import token
from wakeful.shell.arguments import Parser, UsageError
from wakeful.shell.terminal import plain
from wakeful.shown_address import shown_address

if TYPE_CHECKING:
    import httpx2

TIMEOUT = 30.0
LIKE = "write it like http://127.0.0.1:8765"


def add_url(parser: Parser, what: str) -> None:
    """--url and --insecure."""
    parser.add_argument("--url", metavar="URL", help=f"{what}, like http://127.0.0.1:8765")
    parser.add_argument(
        "--insecure",
        action="store_true",
        help="with --url: send the token over plain HTTP to another machine; anyone on the network path can read it",
    )


def post(
    url: str, path: str, content: bytes | str, *, kind: str, insecure: bool, params: Mapping[str, str] | None = None
) -> httpx2.Response:
    """The server's answer. UsageError if a secret would be sent in plain text; StoreUnavailable if there is no answer.

    Redirects are not followed: the token is for this server only.
    """
    import httpx2

    headers = {"Content-Type": kind}
    if (secret := token()) is not None:
        headers["Authorization"] = f"Bearer {secret}"
    plain_text, local = not url.lower().startswith("https://"), _is_this_machine(url)
    if plain_text and not local and not insecure and (secret is not None or shown_address(url) != url):
        what, without = (
            ("the token", "Unset WAKEFUL_TOKEN to send no secret")
            if shown_address(url) == url
            else ("the credential in the address", "Omit it if the server does not require it")
        )
        message = (
            f"--url {shown_address(url)}: {what} would cross the network in plain text: use https://, or add --insecure "
            f"if the network is trusted. {without}"
        )
        raise UsageError(message)
    address = url.rstrip("/") + path
    try:
        return httpx2.post(
            address,
            params=dict(params or {}),
            content=content,
            headers=headers,
            timeout=TIMEOUT,
            follow_redirects=False,
            # A proxy set in the environment would see requests meant only for this machine.
            trust_env=not (plain_text and local),
        )
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol):
        raise UsageError(f"--url {shown_address(url)}: {LIKE}") from None
    except httpx2.HTTPError as error:
        message = f"cannot reach {shown_address(address)} ({error}): is `wakeful serve` running there?"
        raise StoreUnavailable(message) from None


def refusal(url: str, path: str, response: httpx2.Response) -> str:
    """The error message for a request that the server did not accept."""
    from pydantic_core import from_json

    body, status = response.text, response.status_code
    try:
        detail: Any = from_json(body).get("detail") or body
    except (ValueError, AttributeError):
        detail = body
    if 300 <= status < 400:
        leads = shown_address(response.headers.get("location", "nowhere"))
        detail = f"it redirects to {leads}, and redirects are not followed: use the final address"
    remedy = ". Set WAKEFUL_TOKEN to the server's token" if status == 401 else ""
    return f"{shown_address(url.rstrip('/') + path)} answered {status}: {plain(str(detail)[:300])}{remedy}"


def _is_this_machine(url: str) -> bool:
    """Whether the URL has a loopback address. Of names only `localhost` counts: others are resolved outside this
    machine.
    """
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    inner = getattr(address, "ipv4_mapped", None)
    return (inner or address).is_loopback
