"""Settings from the environment, read in one place and only when they are needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from wakeful.errors import ConfigError
from wakeful.shown_address import shown_address

DEFAULT_STORE = "sqlite:///wakeful.db"


def store_url(given: str | None = None, environment: Mapping[str, str] | None = None) -> str:
    """The store to use: the given one, else WAKEFUL_STORE, else a SQLite file in this folder."""
    surroundings = os.environ if environment is None else environment
    return given or surroundings.get("WAKEFUL_STORE") or DEFAULT_STORE


def token(environment: Mapping[str, str] | None = None) -> str | None:
    """The bearer token of the HTTP side, from WAKEFUL_TOKEN."""
    return (os.environ if environment is None else environment).get("WAKEFUL_TOKEN") or None


def next_token(environment: Mapping[str, str] | None = None) -> str | None:
    """The token that will replace the current one and is valid beside it, from WAKEFUL_TOKEN_NEXT."""
    return (os.environ if environment is None else environment).get("WAKEFUL_TOKEN_NEXT") or None


def public_url(environment: Mapping[str, str] | None = None) -> str | None:
    """The address under which people reach this server, from WAKEFUL_URL, without a slash at its end. Raises ConfigError."""
    given = (os.environ if environment is None else environment).get("WAKEFUL_URL")
    if not given:
        return None
    try:
        parts = urlsplit(given)
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname) and not (parts.query or parts.fragment)
        fits = fits and parts.username is None and given.isascii() and given.isprintable() and " " not in given
    except ValueError:
        fits = False
    if not fits:
        message = (
            "WAKEFUL_URL must be the address under which people reach the server, like https://wakeful.example.com"
        )
        raise ConfigError(message)
    return given.rstrip("/")


def ping_url(environment: Mapping[str, str] | None = None) -> str | None:
    """The URL that the watching process pings, from WAKEFUL_PING."""
    return (os.environ if environment is None else environment).get("WAKEFUL_PING") or None


def encryption_keys(environment: Mapping[str, str] | None = None) -> str | None:
    """The keys that payloads are encrypted with, from WAKEFUL_ENCRYPTION_KEYS."""
    return (os.environ if environment is None else environment).get("WAKEFUL_ENCRYPTION_KEYS") or None


def strict_encryption(environment: Mapping[str, str] | None = None) -> bool:
    """Whether this process requires a store in which every payload is encrypted and bound to its row
    (WAKEFUL_ENCRYPTION_STRICT).
    """
    given = (os.environ if environment is None else environment).get("WAKEFUL_ENCRYPTION_STRICT") or "0"
    if given not in {"0", "1"}:
        message = f"WAKEFUL_ENCRYPTION_STRICT must be 1 or 0, not {given!r}"
        raise ConfigError(message)
    return given == "1"


def most_connections(environment: Mapping[str, str] | None = None) -> int | None:
    """How many connections a process may have to PostgreSQL, from WAKEFUL_CONNECTIONS."""
    given = (os.environ if environment is None else environment).get("WAKEFUL_CONNECTIONS")
    if not given:
        return None
    if not given.isdecimal():
        message = f"WAKEFUL_CONNECTIONS must be a whole number, like 4, not {given!r}"
        raise ConfigError(message)
    return int(given)


def http_setting(name: str, environment: Mapping[str, str] | None = None) -> str | None:
    """A limit of the HTTP server; `cli/http_limits.py` has the names and their meaning."""
    return (os.environ if environment is None else environment).get(name) or None


def listen_store(environment: Mapping[str, str] | None = None) -> str | None:
    """The address of the PostgreSQL server itself, if the store's address is a pooler's, from WAKEFUL_LISTEN_STORE."""
    return (os.environ if environment is None else environment).get("WAKEFUL_LISTEN_STORE") or None


def time_zone(environment: Mapping[str, str] | None = None) -> str:
    """The time zone of schedules and reminders without one: WAKEFUL_TIME_ZONE, else UTC."""
    return (os.environ if environment is None else environment).get("WAKEFUL_TIME_ZONE") or "UTC"


def default_app(environment: Mapping[str, str] | None = None) -> str | None:
    """The app of a command that names none: WAKEFUL_APP, else app.py in this folder."""
    named = (os.environ if environment is None else environment).get("WAKEFUL_APP")
    return named or ("app.py" if Path("app.py").is_file() else None)


def dumpable(environment: Mapping[str, str] | None = None) -> bool:
    """Whether debuggers and other processes of the user may inspect a working process: WAKEFUL_DUMPABLE=1."""
    given = (os.environ if environment is None else environment).get("WAKEFUL_DUMPABLE") or "0"
    if given not in {"0", "1"}:
        message = f"WAKEFUL_DUMPABLE must be 1 or 0, not {given!r}"
        raise ConfigError(message)
    return given == "1"


def sqlite_path(url: str) -> Path | None:
    """The file of a sqlite:/// address (three slashes: relative, four: absolute); None for another kind of store."""
    try:
        parts = urlsplit(url)
    except ValueError as error:  # such as an unclosed bracket
        message = f"store {shown_store(url)!r} is not an address ({error}): write sqlite:///file.db or postgresql://user@host/database"
        raise ConfigError(message) from None
    if parts.scheme != "sqlite":
        if parts.scheme not in {"postgresql", "postgres"}:
            message = f"store {shown_store(url)!r}: write sqlite:///file.db or postgresql://user@host/database"
            raise ConfigError(message)
        return None
    if parts.netloc or len(parts.path) < 2:
        message = (
            f"store {shown_store(url)!r}: write sqlite:///file.db (relative) or sqlite:////folder/file.db (absolute)"
        )
        raise ConfigError(message)
    if ":memory:" in parts.path:
        message = "a store in memory would be lost with its process: give it a file, sqlite:///file.db"
        raise ConfigError(message)
    return Path(unquote(parts.path[1:]))


def shown_store(url: str) -> str:
    """A store's address without its password, for people."""
    return shown_address(url)
