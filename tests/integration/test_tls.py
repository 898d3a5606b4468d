"""`sslmode=verify-full` in the address of the store: the right certificate for the right name, or no connection."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.stores import OpenStore, accept, an_arrival
from support.tls import Authority, tls_before
from wakeful.errors import StoreUnavailable
from wakeful.testing.postgres_server import PostgresServer

HOST = "localhost"


def address(url: str, port: int, *, trusts: Authority) -> str:
    place, _, database = url.rpartition("/")
    credentials = place.rpartition("@")[0]
    return f"{credentials}@{HOST}:{port}/{database}?sslmode=verify-full&sslrootcert={trusts.file}"


async def test_the_right_server_is_worked_with(
    postgres_server: PostgresServer, postgres_url: str, stores: OpenStore, tmp_path: Path
):
    ours = Authority.make(tmp_path, "ours")
    async with tls_before(postgres_server.port, ours.server(HOST)) as port:
        store = await stores(address(postgres_url, port, trusts=ours))
        (receipt,) = await accept(store, an_arrival())
        assert receipt.status == "accepted"
        await store.close()


@pytest.mark.parametrize("wrong", ["name", "authority", "no TLS"])
async def test_another_server_is_refused(
    postgres_server: PostgresServer, postgres_url: str, stores: OpenStore, tmp_path: Path, wrong: str
):
    ours, theirs = Authority.make(tmp_path, "ours"), Authority.make(tmp_path, "theirs")
    context = theirs.server(HOST) if wrong == "authority" else ours.server("elsewhere.example")
    async with tls_before(postgres_server.port, context) as port:
        at = postgres_server.port if wrong == "no TLS" else port
        with pytest.raises(StoreUnavailable, match=r"certificate|SSL"):
            await stores(address(postgres_url, at, trusts=ours))
