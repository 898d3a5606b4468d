"""The address a command listens on: its options, its socket and its URL."""

from __future__ import annotations

import errno
import socket

from wakeful.errors import ConfigError
from wakeful.shell.arguments import Parser, whole_number

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8765
BACKLOG = 2048


def add_address(parser: Parser, *, port: int | None = DEFAULT_PORT) -> None:
    parser.add_argument(
        "--host", metavar="HOST", default=DEFAULT_HOST, help=f"address to listen on (default: {DEFAULT_HOST})"
    )
    default = "none, no HTTP" if port is None else str(port)
    parser.add_argument(
        "--port",
        metavar="PORT",
        type=whole_number(0, 65535),
        default=port,
        help=f"port to listen on, 0 for a free one (default: {default})",
    )


def add_names(parser: Parser) -> None:
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="accept requests for this host name too; repeatable",
    )


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Bound before any other work, so that an occupied port is reported at once."""
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        if listener is not None:
            listener.close()
        remedy = ""
        if isinstance(error, socket.gaierror):
            remedy = ": check the host name"
        elif error.errno == errno.EADDRINUSE:
            remedy = ": another process uses this port. Choose another one, or --port 0 for a free one"
        message = f"cannot listen on {host} port {port}: {error.strerror or error}{remedy}"
        raise ConfigError(message) from None
    listener.setblocking(False)
    return listener


def url_of(host: str, listener: socket.socket) -> str:
    from wakeful.http.security import is_loopback

    name = host.strip("[]")
    if name in {"0.0.0.0", "::", ""} or is_loopback(name):  # noqa: S104 only compared
        name = listener.getsockname()[0] if name != "localhost" else name
    return f"http://{f'[{name}]' if ':' in name else name}:{listener.getsockname()[1]}"
