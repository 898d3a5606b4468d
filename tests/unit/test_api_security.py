"""The Host check and the token."""

from __future__ import annotations

import asyncio

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route, Router
from starlette.testclient import TestClient

from support.fake_api import Api
from support.tokens import TOKEN, WITH_TOKEN
from wakeful.errors import ConfigError
from wakeful.http.security import KNOWN_HOSTS_LIMIT, KNOWN_NAMES_LIMIT, ApiSettings, Guard, refuse_open_binding


def status(api, host, path="/healthz", **headers):
    return api.client.get(path, headers={"host": host, **headers}).status_code


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:80",
        "localhost.",
        "127.0.0.1",
        "127.0.0.1:8400",
        "127.8.9.1:1",
        "[::1]",
        "[::1]:8400",
        "::1",
    ],
)
def test_loopback_is_allowed_with_any_port(host):
    assert status(Api(), host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8400",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost:80@evil.example",
        "localhost:evil",
        "evil@localhost",
        "192.168.0.5",
        "0.0.0.0",
        "[::1].evil.example",
        "[::1]evil",
        "[evil]:80",
        "127.1",
        "2130706433",
        "localhost,evil.example",
    ],
)
def test_every_other_name_is_refused(host):
    api = Api()
    response = api.client.get("/v1/runs", headers={"host": host})
    assert response.status_code == 421
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["field"] == "Host"
    assert api.reader.asked == {}


def test_the_bound_host_and_the_configured_ones_are_allowed():
    api = Api(ApiSettings(host="Wakeful.internal", allowed_hosts=("ops.example.com",), token=TOKEN))
    assert status(api, "wakeful.internal:8400") == 200
    assert status(api, "OPS.example.com") == 200
    assert status(api, "example.com") == 421
    assert status(api, "10.0.0.5") == 421


def test_the_bound_address_is_allowed_however_it_is_written():
    api = Api(ApiSettings(host="fd00::5", token=TOKEN))
    assert status(api, "[fd00:0:0::5]:8400") == 200
    assert status(api, "[fd00::6]:8400") == 421


@pytest.mark.parametrize("bound", ["0.0.0.0", "::"])
def test_bound_to_every_address_any_address_is_allowed_but_no_name(bound):
    api = Api(ApiSettings(host=bound, token=TOKEN))
    assert status(api, "10.0.0.5:8400") == 200
    assert status(api, "[fd00::5]") == 200
    assert status(api, "evil.example") == 421


def test_every_name_can_be_allowed():
    assert status(Api(ApiSettings(allowed_hosts=("*",))), "anything.example") == 200


async def ask(app, headers, kind="http"):
    sent = []

    async def receive():
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    await app({"type": kind, "method": "GET", "path": "/healthz", "root_path": "", "headers": headers}, receive, send)
    return sent[0]


async def test_exactly_one_host_header():
    app = Api().app
    assert (await ask(app, []))["status"] == 421
    assert (await ask(app, [(b"host", b"localhost"), (b"host", b"evil.example")]))["status"] == 421


async def test_websockets_are_guarded_too():
    app = Api().app
    assert (await ask(app, [(b"host", b"evil.example")], "websocket"))["type"] == "websocket.close"


async def test_hosts_without_end_do_not_fill_the_memory():
    async def answer(scope, receive, send):
        await PlainTextResponse("x")(scope, receive, send)

    guard = Guard(answer, ApiSettings())
    for port in range(KNOWN_HOSTS_LIMIT + 100):
        assert (await ask(guard, [(b"host", b"localhost:%d" % port)]))["status"] == 200
    assert len(guard._known) <= KNOWN_HOSTS_LIMIT


async def test_names_of_headers_without_end_do_not_fill_the_memory():
    async def answer(scope, receive, send):
        await PlainTextResponse("x")(scope, receive, send)

    guard = Guard(answer, ApiSettings())
    local = (b"host", b"localhost")
    for number in range(KNOWN_NAMES_LIMIT + 100):
        await ask(guard, [local, (b"x-%d" % number, b"")])
    assert len(guard._plain) == KNOWN_NAMES_LIMIT


class TestToken:
    @pytest.fixture
    def api(self):
        return Api(ApiSettings(token=TOKEN, open_paths=frozenset({"/hooks/signed"})))

    @pytest.mark.parametrize(
        "path", ["/v1/runs", "/v1/openapi.json", "/v1/events", "/nothing", "/", "/healthz/", "/healthzz"]
    )
    def test_without_it_nothing_is_shown(self, api, path):
        response = api.client.get(path)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.json()["field"] == "Authorization"
        assert api.reader.asked == {}

    def test_a_post_without_it_stores_nothing(self, api):
        response = api.client.post("/v1/events", json={"id": "1", "source": "s", "type": "t"})
        assert response.status_code == 401
        assert api.door.events == []

    @pytest.mark.parametrize("path", ["/hooks/signde", "/hooks/signed/", "/nothing"])
    @pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer of the sender's own"}])
    def test_a_sender_that_calls_another_path_is_told_so(self, api, path, headers):
        """It must not be asked for the token of this server: somebody might give it."""
        response = api.client.post(path, headers=headers)
        assert response.status_code == 404
        assert "token" not in response.text

    @pytest.mark.parametrize("path", ["/", "/v1/events", "/v1/nothing", "/metrics", "/healthz/"])
    def test_the_servers_own_places_want_it_for_every_method(self, api, path):
        assert api.client.post(path).status_code == 401

    @pytest.mark.parametrize(
        "given",
        [
            "Bearer wrong",
            "Bearer",
            "Bearer ",
            TOKEN,
            f"Basic {TOKEN}",
            f"Bearer {TOKEN} {TOKEN}",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
        ],
    )
    def test_a_wrong_one_is_refused(self, api, given):
        assert api.client.get("/v1/runs", headers={"authorization": given}).status_code == 401

    @pytest.mark.parametrize("given", [f"Bearer {TOKEN}", f"bearer {TOKEN}", f"Bearer  {TOKEN} "])
    def test_the_right_one_is_taken(self, api, given):
        assert api.client.get("/v1/runs", headers={"authorization": given}).status_code == 200

    @pytest.mark.parametrize("path", ["/healthz", "/readyz"])
    def test_health_needs_none(self, api, path):
        assert api.client.get(path).status_code == 200

    def test_open_paths_check_their_callers_themselves(self, api):
        assert api.client.post("/hooks/signed").status_code == 404

    def test_mounted_somewhere_the_same_paths_are_open(self, api):
        client = TestClient(Router([Mount("/wakeful", api.app)]), base_url="http://localhost")
        assert client.get("/wakeful/healthz").status_code == 200
        assert client.get("/wakeful/v1/runs").status_code == 401
        assert client.get("/wakeful/v1/runs", headers=WITH_TOKEN).status_code == 200

    def test_extra_routes_are_guarded(self):
        async def extra(_):
            return PlainTextResponse("extra")

        api = Api(ApiSettings(token=TOKEN), extra_routes=[Route("/console", extra)])
        assert api.client.get("/console").status_code == 401

    def test_it_is_not_shown(self):
        assert "tPq4" not in repr(ApiSettings(token=TOKEN, next_token=TOKEN))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.5", "wakeful.internal", ""])
def test_beyond_loopback_a_token_is_needed(host):
    for token in (None, ""):
        with pytest.raises(ConfigError, match="WAKEFUL_TOKEN"):
            refuse_open_binding(ApiSettings(host=host, token=token))
        with pytest.raises(ConfigError):
            Api(ApiSettings(host=host, token=token))
    refuse_open_binding(ApiSettings(host=host, token=TOKEN))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.5.5.5"])
def test_on_loopback_none_is_needed(host):
    refuse_open_binding(ApiSettings(host=host))
