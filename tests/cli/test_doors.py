"""Who may come in: a real `wakeful serve`, attacked by what strangers and foreign pages send."""

from __future__ import annotations

import json
import re

import pytest

from support.raw_http import send
from support.tokens import NEXT_TOKEN, TOKEN
from wakeful.tokens import LEAST_BITS, bits_of

APP = """
from wakeful import App, Run, on, webhook
from wakeful.verify import bearer

app = App("doors")
app.expect("backup", by="03:00")


@app.agent(on("go"))
async def go(run: Run) -> str:
    return "gone"
"""
HOOK = """

@app.agent(webhook("/hooks/any", verify=bearer("hook-secret")))
async def hooked(run: Run) -> None: ...
"""
JSON = "Content-Type: application/json"
RIGHT = f"Authorization: Bearer {TOKEN}"
EVENT = json.dumps({"source": "/stranger", "id": "1", "type": "go"}).encode()


@pytest.fixture
def serve(folder, start):
    """A server of the app above, and its address."""

    def begin(*words, app=APP, **environment):
        (folder / "doors.py").write_text(app)
        server = start("serve", "doors.py", "--port", "0", *words, env=environment)
        return server, server.wait_for(r"serving doors on (http://\S+)")[1]

    return begin


def stored(url, *headers):
    """Every event that came in."""
    return [one["id"] for one in send(url, "GET", "/v1/events", *headers).json["events"]]


# without a token


def test_a_host_of_loopback_proves_nothing_about_a_request_that_a_proxy_passed_on(serve):
    _, url = serve()
    for header in (
        "X-Forwarded-For: 203.0.113.5",
        "X-Forwarded-For: 127.0.0.1",
        "x-forwarded-host: ops.example.com",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Anything: 1",
        "Forwarded: for=203.0.113.5",
        "Forwarded: for=127.0.0.1",
        "Via: 1.1 proxy",
        "X-Forwarded: for=203.0.113.9",
        "Fly-Client-IP: 203.0.113.9",
        "X-Real-IP: 127.0.0.1",
    ):
        for host in ("127.0.0.1", "localhost", url.removeprefix("http://")):
            posted = send(url, "POST", "/v1/events", JSON, header, host=host, body=EVENT)
            assert (posted.status, posted.json["type"]) == (403, "urn:wakeful:problem:token-needed"), header
            assert "wakeful token" in posted.json["detail"]
        assert send(url, "GET", "/v1/events", header).status == 403, header
        assert send(url, "GET", "/v1/openapi.json", header).status == 403, header
    assert stored(url) == []
    assert send(url, "POST", "/v1/events", JSON, host="evil.example", body=EVENT).status == 421
    assert send(url, "POST", "/v1/events", JSON, body=EVENT).status == 202
    assert stored(url) == ["1"]


def test_a_name_that_a_proxy_is_called_by_opens_nothing(serve):
    _, url = serve("--allow-host", "ops.example.com")
    assert send(url, "GET", "/v1/events", host="ops.example.com").status == 403
    assert send(url, "GET", "/healthz", host="ops.example.com").status == 200
    assert send(url, "GET", "/v1/events").status == 200


def test_with_webhooks_and_no_token_only_webhooks_are_open(serve):
    server, url = serve(app=APP + HOOK)
    server.wait_for("no token: only webhooks and health checks are served")
    for headers in ((), ("X-Forwarded-For: 203.0.113.5",)):
        refused = send(url, "POST", "/v1/events", JSON, *headers, body=EVENT)
        assert refused.status == 403
        assert "webhooks" in refused.json["detail"]
        assert "WAKEFUL_TOKEN" in refused.json["detail"]
        assert send(url, "GET", "/v1/events", *headers).status == 403
        hook = send(url, "POST", "/hooks/any", JSON, "Authorization: Bearer hook-secret", *headers, body=b'{"n": 1}')
        assert hook.status == 202
        assert send(url, "POST", "/hooks/any", JSON, "Authorization: Bearer guess", *headers, body=b"{}").status == 401
        assert send(url, "POST", "/hooks/other", JSON, *headers, body=b"{}").status == 404
        assert send(url, "GET", "/readyz", *headers).json == {"status": "ready"}


def test_with_a_token_webhooks_and_the_rest_work_through_a_proxy(serve):
    _, url = serve(app=APP + HOOK, WAKEFUL_TOKEN=TOKEN)
    passed_on = "X-Forwarded-For: 203.0.113.5"
    assert send(url, "POST", "/v1/events", JSON, passed_on, body=EVENT).status == 401
    assert send(url, "POST", "/v1/events", JSON, passed_on, RIGHT, body=EVENT).status == 202
    hook = send(url, "POST", "/hooks/any", JSON, passed_on, "Authorization: Bearer hook-secret", body=b"{}")
    assert hook.status == 202


# tokens


@pytest.mark.parametrize(
    "weak", ["hunter2", "correct-horse-battery-staple", "a" * 64, "Changeme1" * 9, "with a space " * 5]
)
def test_a_token_that_can_be_guessed_is_refused(wakeful, folder, monkeypatch, weak):
    (folder / "doors.py").write_text(APP)
    for name, other in (("WAKEFUL_TOKEN", "WAKEFUL_TOKEN_NEXT"), ("WAKEFUL_TOKEN_NEXT", "WAKEFUL_TOKEN")):
        monkeypatch.setenv(other, TOKEN)
        monkeypatch.setenv(name, weak)
        for command in ("serve", "worker", "dev"):
            said = wakeful(command, "doors.py", "--port", "0", code=1).err
            assert f"({name}," in said
            assert "`wakeful token` prints a new one" in said
            assert weak not in said
    assert not (folder / "wakeful.db").exists()


def test_a_next_token_alone_is_refused(wakeful, folder, monkeypatch):
    (folder / "doors.py").write_text(APP)
    monkeypatch.setenv("WAKEFUL_TOKEN_NEXT", TOKEN)
    assert "set WAKEFUL_TOKEN to the current one" in wakeful("serve", "doors.py", "--port", "0", code=1).err


def test_a_new_token(wakeful):
    made = [wakeful("token").out.strip(), wakeful("token", "--json").json["token"]]
    assert made[0] != made[1]
    assert all(bits_of(one) >= LEAST_BITS and re.fullmatch(r"[A-Za-z0-9]{43}", one) for one in made)


def test_two_tokens_are_valid_while_one_replaces_the_other(serve):
    _, url = serve(WAKEFUL_TOKEN=TOKEN, WAKEFUL_TOKEN_NEXT=NEXT_TOKEN)
    for token, status in ((TOKEN, 200), (NEXT_TOKEN, 200), (TOKEN[:-1] + "x", 401), (f"{TOKEN}{NEXT_TOKEN}", 401)):
        assert send(url, "GET", "/v1/runs", f"Authorization: Bearer {token}").status == status


def test_wrong_tokens_are_slowed_counted_and_logged_without_the_token(serve):
    server, url = serve(WAKEFUL_TOKEN=TOKEN, WAKEFUL_TOKEN_NEXT=NEXT_TOKEN)
    wrong = [f"Guess{number:02}-{TOKEN[:-2]}" for number in range(13)]
    answers = [send(url, "GET", "/v1/runs", f"Authorization: Bearer {one}") for one in wrong]
    assert [one.status for one in answers] == [401] * 10 + [429] * 3
    assert answers[-1].json["type"] == "urn:wakeful:problem:too-many-tries"
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    # Everybody behind a proxy has this address: the right tokens go on.
    for token in (TOKEN, NEXT_TOKEN):
        assert send(url, "GET", "/v1/runs", f"Authorization: Bearer {token}").status == 200
    assert send(url, "GET", "/v1/runs").status == 401  # no try at all
    astray = send(url, "POST", "/hooks/nothing", JSON, "Authorization: Bearer guess", body=b"{}")
    assert astray.status == 429  # else it would tell, unslowed, which token is right
    told = send(url, "GET", "/readyz", RIGHT).json["parts"]["tokens"]
    assert told == {"ok": True, "wrong": 14, "slowed": 4}
    server.wait_for("wrong tokens from this address now get 429")
    lines = [json.loads(line) for line in server.seen if '"level":"warning"' in line]
    assert len(lines) == 11
    assert [one["address"] for one in lines] == ["127.0.0.1"] * 11
    assert not re.search(f"Guess|{TOKEN[:6]}|{NEXT_TOKEN[:6]}", server.output)


# foreign pages


def test_a_form_of_a_foreign_page_changes_nothing(serve):
    """What a browser sends for any page without asking first: three types of forms, and no body at all."""
    _, url = serve()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", None, ""):
        headers = [] if kind is None else [f"Content-Type: {kind}"]
        for body in (b"{}", b""):
            for path in ("/v1/checkins/backup", "/v1/agents/go/runs", "/v1/events"):
                assert send(url, "POST", path, *headers, body=body or b"").status == 415, (kind, path)
    assert stored(url) == []
    assert send(url, "POST", "/v1/checkins/backup", JSON).status == 202
    assert send(url, "POST", "/v1/agents/go/runs", "content-type: Application/JSON; charset=utf-8").status == 202
    assert len(stored(url)) == 2


def test_with_the_token_an_empty_body_needs_no_type(serve):
    _, url = serve(WAKEFUL_TOKEN=TOKEN)
    assert send(url, "POST", "/v1/checkins/backup").status == 401
    assert send(url, "POST", "/v1/checkins/backup", RIGHT, "Content-Type: text/plain", body=b"{}").status == 415
    assert send(url, "POST", "/v1/checkins/backup", RIGHT).status == 202


@pytest.mark.parametrize("token", [None, TOKEN])
def test_what_a_browser_calls_foreign_is_refused_everywhere(serve, token):
    _, url = serve("--allow-host", "ops.example.com", app=APP + HOOK if token else APP, WAKEFUL_TOKEN=token or "")
    own = url.removeprefix("http://")
    known = [RIGHT] if token else []
    foreign = [
        "Origin: https://evil.example",
        "Origin: null",
        "Origin: http://127.0.0.1:1",
        f"Origin: http://{own}.evil.example",
        "Origin: ",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Site: same-origin",
    ]
    for header in foreign:
        for method, path in (
            ("GET", "/v1/events"),
            ("POST", "/v1/events"),
            ("OPTIONS", "/v1/events"),
            ("POST", "/v1/checkins/backup"),
            ("POST", "/hooks/any"),
            ("GET", "/healthz"),
            ("GET", "/readyz"),
        ):
            credentials = ["Authorization: Bearer hook-secret"] if path == "/hooks/any" else known
            answer = send(
                url, method, path, JSON, header, *credentials, host=own, body=EVENT if method == "POST" else b""
            )
            assert (answer.status, answer.json["type"]) == (403, "urn:wakeful:problem:foreign-page"), (header, path)
            assert "access-control-allow-origin" not in answer.headers
    assert stored(url, *known) == []
    for number, header in enumerate((f"Origin: http://{own}", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none")):
        body = EVENT.replace(b'"1"', b'"own-%d"' % number)
        assert send(url, "POST", "/v1/events", JSON, header, *known, host=own, body=body).status == 202, header
    if token:  # through a proxy that hands on the Host of its own
        through = send(url, "GET", "/v1/runs", "Origin: https://ops.example.com", RIGHT, host=own)
        assert through.status == 200


# readiness


def test_strangers_hear_ready_or_not_and_no_more(serve):
    _, url = serve(WAKEFUL_TOKEN=TOKEN)
    for headers in ((), ("Authorization: Bearer wrong",), ("X-Forwarded-For: 127.0.0.1",)):
        answer = send(url, "GET", "/readyz", *headers)
        assert (answer.status, answer.json) == (200, {"status": "ready"})
    known = send(url, "GET", "/readyz", RIGHT).json
    assert known["status"] == "ready"
    assert known["parts"]["store"] == "sqlite"


def test_on_this_machine_more_is_told_without_a_token(serve):
    _, url = serve()
    assert send(url, "GET", "/readyz").json["parts"]["store"] == "sqlite"
    assert send(url, "GET", "/readyz", "Via: 1.1 proxy").json == {"status": "ready"}
