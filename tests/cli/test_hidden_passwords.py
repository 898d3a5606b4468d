"""The password of a store's address is in nothing that a command says, whichever way it was written."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from wakeful.testing.postgres_server import PostgresServer


@pytest.fixture(params=["before the host", "in the query"])
def store(request, postgres_dsn):
    """The address of an empty database, and its password."""
    parts = urlsplit(postgres_dsn)
    if request.param == "before the host":
        return postgres_dsn, parts.password
    host = f"{parts.username}@{parts.netloc.rpartition('@')[2]}"
    return parts._replace(netloc=host, query=f"password={parts.password}").geturl(), parts.password


@pytest.mark.postgres
def test_no_command_shows_it(store, wakeful, tickets):
    url, password = store
    remedies = wakeful("doctor", "--json", "--store", url, code=1).json["findings"]
    assert 'wakeful migrate --store "$WAKEFUL_STORE"' in [one["remedy"] for one in remedies]
    for words in (
        ("doctor",),
        ("runs",),
        ("serve", "app.py"),
        ("migrate", "--plan"),
        ("migrate", "--plan", "--json"),
        ("migrate", "--json"),
        ("migrate",),
        ("doctor", "app.py"),
        ("check", "app.py", "--json"),
        ("check", "app.py"),
        ("run", "app.py", "page", "--wait"),
        ("why", "nothing"),
    ):
        said = wakeful(*words, "--store", url, code=None)
        assert password not in said.out + said.err, words


@pytest.mark.postgres
def test_errors_of_the_driver_do_not_show_it(wakeful, tickets, postgres_server: PostgresServer, monkeypatch):
    monkeypatch.setenv("WAKEFUL_DEBUG", "1")  # with the traceback
    for url in (
        "postgresql://ada:pass-word@127.0.0.1:9/x",
        "postgresql://127.0.0.1:9/x?password=pass-word",
        "postgresql://ada:pass-word@127.0.0.1:nine/x",
        "postgresql://ada:pass-word@127.0.0.1:9/x?sslmode=odd",
        "postgresql://ada:pass-word@[127.0.0.1:9/x",
        "postgres+odd://ada:pass-word@127.0.0.1:9/x",
        f"postgresql://postgres:pass-word@127.0.0.1:{postgres_server.port}/postgres",
    ):
        for words in (("runs",), ("doctor",), ("run", "app.py", "page")):
            said = wakeful(*words, "--store", url, code=None)
            assert "pass-word" not in said.out + said.err, (url, said.err)
