"""POST and GET /v1/events."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager

import httpx2
import pytest
import uvicorn

from support.fake_api import CURSOR, EVENT, Api, assert_problem
from wakeful.errors import IdempotencyConflict, InvalidEvent, SchemaMismatch, StoreUnavailable
from wakeful.http.security import ApiSettings

EVENT_IN = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.created", "data": {"total": 1}}
STRUCTURED = {"content-type": "application/cloudevents+json"}


@pytest.fixture
def api():
    return Api()


def post(api, content=EVENT_IN, headers=STRUCTURED):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return api.client.post("/v1/events", content=body, headers=headers)


def test_a_structured_event_is_accepted(api):
    response = post(api)
    assert response.status_code == 202
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {"events": [{"source": "/shop", "id": "1", "status": "accepted", "runs": ["run-1"]}]}
    assert api.door.events[0].data == {"total": 1}
    assert api.door.idempotency is None


def test_a_batch_and_plain_json_are_accepted(api):
    assert (
        len(post(api, [EVENT_IN, EVENT_IN | {"id": "2"}], {"content-type": "application/json"}).json()["events"]) == 2
    )
    assert len(post(api, [EVENT_IN] * 3, {"content-type": "application/cloudevents-batch+json"}).json()["events"]) == 3


def test_binary_mode_is_accepted(api):
    headers = {
        "content-type": "text/plain",
        "CE-ID": "7",
        "ce-source": "/s%20t",
        "ce-type": "t",
        "ce-specversion": "1.0",
    }
    assert post(api, b"hello", headers).json()["events"][0]["source"] == "/s t"
    assert api.door.events[0].data == "hello"


def test_bad_input_names_the_field_and_the_index_and_nothing_is_stored(api):
    bad = [EVENT_IN, EVENT_IN | {"id": ""}]
    problem = assert_problem(post(api, bad, {"content-type": "application/json"}), 400, field="id", index=1)
    assert "event at index 1 of the batch" in problem["detail"]
    assert "index" not in assert_problem(post(api, b"\xff"), 400, field="body")
    assert api.door.events == []


def test_an_error_message_can_always_be_sent(api):
    assert_problem(post(api, EVENT_IN | {"data": {"\ud800\0": "\ud800"}}), 400)


@pytest.mark.parametrize("headers", [{"content-type": "text/csv"}, {}, {"content-type": "application/cloudevents+xml"}])
def test_other_content_types_get_415(api, headers):
    assert_problem(post(api, headers=headers), 415, field="Content-Type")


def test_a_compressed_body_gets_415(api):
    assert_problem(post(api, headers=STRUCTURED | {"content-encoding": "gzip"}), 415, field="Content-Encoding")


class TestIdempotencyKey:
    def ask(self, api, content=EVENT_IN, **headers):
        post(api, content, STRUCTURED | {"Idempotency-Key": "key-1"} | headers)
        return api.door.idempotency

    def test_it_is_handed_on_with_a_digest_of_the_request(self, api):
        key, digest = self.ask(api)
        assert key == "key-1"
        assert self.ask(api) == (key, digest)
        assert self.ask(api, **{"user-agent": "another"}) == (key, digest)
        assert self.ask(api, EVENT_IN | {"id": "2"})[1] != digest
        assert self.ask(api, **{"content-type": "application/json"})[1] != digest

    def test_headers_that_are_part_of_the_event_count(self, api):
        binary = {"content-type": "text/plain", "ce-source": "/s", "ce-type": "t", "ce-specversion": "1.0"}
        one = self.ask(api, b"x", **binary, **{"ce-id": "1"})
        two = self.ask(api, b"x", **binary, **{"ce-id": "2"})
        assert one[1] != two[1]

    def test_a_quoted_key_is_the_same_key(self, api):
        assert self.ask(api, **{"Idempotency-Key": '"key-1"'}) == self.ask(api)

    @pytest.mark.parametrize("key", ["", '""', "x" * 256, "gr\u00fcn".encode(), "a\tb"])
    def test_a_bad_key_gets_400(self, api, key):
        assert_problem(post(api, headers=STRUCTURED | {"Idempotency-Key": key}), 400, field="Idempotency-Key")
        assert api.door.events == []

    def test_a_conflict_gets_422(self, api):
        api.door.error = IdempotencyConflict("used before")
        assert_problem(post(api), 422, field="Idempotency-Key", detail="used before")


def test_an_unavailable_store_gets_503_that_says_what_to_do(api):
    api.door.error = StoreUnavailable("postgresql://user:secret@host is gone")
    response = post(api)
    problem = assert_problem(response, 503)
    assert "it may be stored; sending it again is safe" in problem["detail"]
    assert "secret" not in response.text
    assert int(response.headers["retry-after"]) > 0


def test_a_schema_that_does_not_fit_gets_503(api):
    api.door.error = SchemaMismatch("the schema is behind: run wakeful migrate")
    assert "wakeful migrate" in assert_problem(post(api), 503)["detail"]


def test_what_the_door_finds_wrong_gets_400(api):
    api.door.error = InvalidEvent("data is too large", field="data", index=0)
    assert_problem(post(api), 400, field="data", index=0)


def test_an_error_of_our_own_gets_500_without_its_words(api):
    api.door.error = RuntimeError("secret")
    response = post(api)
    assert_problem(response, 500)
    assert "secret" not in response.text


class TestReading:
    def test_listing(self, api):
        response = api.client.get("/v1/events", params={"type": "t", "state": "unmatched", "limit": 7, "after": CURSOR})
        assert response.json() == {"events": [EVENT], "next": None}
        assert api.reader.asked == {"type": "t", "state": "unmatched", "id": None, "most": 8, "after": int(CURSOR)}

    @pytest.mark.parametrize(
        "path", ["/v1/events/k", "/v1/events/a/b", "/v1/events/a%2Fb", "/v1/events/%2Fa%2F%2Fb%3Fc"]
    )
    def test_one_by_key_or_id(self, api, path):
        assert EVENT.items() <= api.client.get(path).json().items()

    def test_one_by_query(self, api):
        page = api.client.get("/v1/events", params={"id": "/a//b?c"}).json()
        assert EVENT.items() <= page["events"][0].items()
        assert page["next"] is None
        assert api.client.get("/v1/events", params={"id": "nothing"}).json() == {"events": [], "next": None}

    @pytest.mark.parametrize("key", ["nothing", "%00", "x" * 3000, "%ff"])
    def test_nothing_of_that_name(self, api, key):
        assert_problem(api.client.get(f"/v1/events/{key}"), 404)

    def test_a_head_request(self, api):
        assert api.client.head("/v1/events").status_code == 200


class Messages:
    """An ASGI client by hand, to see exactly how much of a body is asked for."""

    def __init__(self, *parts: bytes, endless: bytes | None = None) -> None:
        self.parts = list(parts)
        self.endless = endless
        self.received = 0
        self.sent: list[dict] = []

    async def receive(self):
        self.received += 1
        if self.endless is not None:
            return {"type": "http.request", "body": self.endless, "more_body": True}
        if not self.parts:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": self.parts.pop(0), "more_body": bool(self.parts)}

    async def send(self, message):
        self.sent.append(message)

    def post(self, api, *headers: tuple[bytes, bytes]):
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/events",
            "raw_path": b"/v1/events",
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "http_version": "1.1",
            "server": ("127.0.0.1", 8400),
            "client": ("127.0.0.1", 1),
            "headers": [(b"host", b"127.0.0.1:8400"), (b"content-type", b"application/json"), *headers],
        }
        asyncio.run(api.app(scope, self.receive, self.send))
        return self.sent[0]["status"] if self.sent else None


class TestBodyLimit:
    def test_a_declared_length_over_the_limit_is_refused_before_anything_is_read(self, api):
        messages = Messages(endless=b"x" * 1024)
        assert messages.post(api, (b"content-length", str(1024 * 1024 + 1).encode())) == 413
        assert messages.received == 0
        assert (b"connection", b"close") in messages.sent[0]["headers"]

    def test_a_stream_is_refused_as_soon_as_it_goes_over(self, api):
        messages = Messages(endless=b"x" * 65536)
        assert messages.post(api) == 413
        assert messages.received == 17

    def test_a_stream_that_is_longer_than_declared_is_refused(self, api):
        messages = Messages(endless=b"x" * 65536)
        assert messages.post(api, (b"content-length", b"10")) == 413
        assert messages.received == 17

    def test_one_message_over_the_limit_is_refused(self, api):
        assert Messages(b"x" * (1024 * 1024 + 1)).post(api) == 413
        assert Messages(b"x" * 1024 * 1024, b"x").post(api) == 413

    def test_exactly_the_limit_is_read_in_any_number_of_parts(self):
        body = json.dumps(EVENT_IN).encode()
        api = Api(ApiSettings(body_limit=len(body)))
        assert Messages(body).post(api) == 202
        assert Messages(*[body[at : at + 1] for at in range(len(body))]).post(api) == 202
        assert Messages(body, b"").post(api) == 202
        assert Messages(body + b" ").post(api) == 413

    @pytest.mark.parametrize("length", [b"-1", b"1_0", b"+5", b"x", b"", "٣".encode()])
    def test_a_length_that_is_no_number_is_refused(self, api, length):
        assert Messages(b"{}").post(api, (b"content-length", length)) == 400

    def test_an_absurd_length_is_refused(self, api):
        assert Messages(b"{}").post(api, (b"content-length", b"9" * 5000)) == 413

    def test_a_client_that_leaves_gets_no_answer_and_nothing_is_stored(self, api):
        messages = Messages(json.dumps(EVENT_IN).encode(), b"")
        messages.parts.pop()

        async def leave():
            messages.received += 1
            return (
                {"type": "http.request", "body": b"{", "more_body": True}
                if messages.received == 1
                else {"type": "http.disconnect"}
            )

        messages.receive = leave  # type: ignore[method-assign]
        assert messages.post(api) is None
        assert api.door.events == []

    @pytest.mark.parametrize("http", ["h11", "httptools"])
    def test_a_real_server_answers_413_and_goes_on(self, api, http):
        with serving(api.app, http) as url, httpx2.Client(base_url=url) as client:

            def endless():
                for _ in range(2000):
                    yield b"x" * 65536

            for content in (b"x" * 8_000_000, endless()):
                response = client.post("/v1/events", content=content, headers=STRUCTURED)
                assert_problem(response, 413)
            response = client.post("/v1/events", content=json.dumps(EVENT_IN), headers=STRUCTURED)
            assert response.status_code == 202


@contextmanager
def serving(app, http: str):
    server = uvicorn.Server(uvicorn.Config(app, port=0, http=http, log_level="error"))
    thread = threading.Thread(target=server.run)
    started = threading.Event()
    startup = server.startup

    async def startup_and_tell(*arguments, **options):
        await startup(*arguments, **options)
        started.set()

    server.startup = startup_and_tell  # type: ignore[method-assign]
    thread.start()
    assert started.wait(60)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
