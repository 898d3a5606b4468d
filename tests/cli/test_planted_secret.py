"""A secret is planted wherever code could let it slip, and looked for in everything that Wakeful says, writes and stores."""

from __future__ import annotations

import asyncio
import json
import signal
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path
from urllib.parse import quote, quote_plus

import httpx2
import pytest

from support.stores import query
from wakeful.settings import sqlite_path

SECRET = 'pl4nted/"v\\alue"+&=%21-8f3c'
PASSWORD = "pl4nted-pass/word"
TOKEN = "pl4nted-token-5d41402abc4b2a76b9719d911017c592"
SET = {
    "PLANTED_SECRET": SECRET,
    "PLANTED_SHOP": f"postgresql://ada:{quote(PASSWORD, safe='')}@127.0.0.1:9/shop",
    "WAKEFUL_TOKEN": TOKEN,
    "OTHER_PASSWORD": "pl4nted-and-never-declared",  # by its name
}

APP = """
import logging
import os
import threading
import warnings
from base64 import b64encode
from urllib.parse import quote

from pydantic import BaseModel

from wakeful import App, Operation, Persistent, Run, action, env, on, postgres_changes, step, webhook
from wakeful.channels import file, http
from wakeful.verify import bearer

SECRET = os.environ["PLANTED_SECRET"]
PASSWORD = "pl4nted-pass/word"
app = App(
    "leaky",
    alarms="alarms",
    channels={
        "alarms": file("alarms.jsonl"),
        "path": http(f"http://127.0.0.1:9/hook/{quote(SECRET, safe='')}", allow_private=True, attempts=1),
        "query": http(f"http://127.0.0.1:9/hook?token={quote(SECRET, safe='')}", allow_private=True, attempts=1),
        "header": http("http://127.0.0.1:9/", headers={"X-Key": env("PLANTED_SECRET")}, allow_private=True, attempts=1),
    },
)


class Kept(BaseModel):
    text: str = ""


def log_in(secret: str) -> None:
    raise Persistent(f"{secret} was refused, also as {quote(secret, safe='')}, {b64encode(b'ada:' + secret.encode()).decode()}")


@app.agent(on("raise"))
async def raises(run: Run) -> None:
    warnings.warn(f"{SECRET} in a warning", stacklevel=1)
    thread = threading.Thread(target=log_in, args=(SECRET,))
    thread.start()
    thread.join()
    log_in(SECRET)


@app.agent(on("raise"))
async def raises_long(run: Run) -> None:
    raise Persistent("x" * 3990 + SECRET + PASSWORD)


@app.agent(on("raise"), attempts=2, backoff="1ms")
async def raises_twice(run: Run) -> None:
    raise ValueError(SECRET, PASSWORD, os.environ["OTHER_PASSWORD"])


async def fetch(secret: str, more: dict[str, str] | None = None) -> int:
    return len(secret)


@step(attempts=2, backoff="1ms")
async def fails(secret: str) -> None:
    raise RuntimeError(secret)


@app.agent(on("step"))
async def steps(run: Run) -> int:
    try:
        await run.step(fails, SECRET)
    except RuntimeError:
        pass
    await run.step(fetch, "x" * 3990 + SECRET)
    return await run.step(fetch, SECRET, {"password": PASSWORD})


@app.agent(on("log"))
async def logs(run: Run) -> None:
    run.log.info(f"logged in with {SECRET}", secret=SECRET, deep={"secret": [SECRET]}, shown=locals())
    logging.getLogger("library").error("refused: %s %r", SECRET, {"password": PASSWORD})
    try:
        log_in(SECRET)
    except Persistent:
        logging.getLogger("library").exception("with its traceback")


@app.agent(on("send"))
async def sends(run: Run) -> None:
    for channel in ("path", "query", "header"):
        run.send(channel, "hello")


@app.agent(on("deny"))
async def asks(run: Run) -> None:
    from wakeful import Denied

    raise Denied(f"not with {SECRET}")


app.command("says", on("command"), 'printf "%s\\n" "$KEY"; printf "%s\\n" "$KEY" >&2', environment={"KEY": env("PLANTED_SECRET")})
app.command("fails", on("command"), 'printf "%s\\n" "$KEY"; printf "%s\\n" "$KEY" >&2; exit 3', environment={"KEY": env("PLANTED_SECRET")})


@app.agent(webhook("/hooks/in", verify=bearer(env("PLANTED_SECRET")), type="hook"))
async def hooked(run: Run) -> None: ...


@app.agent(postgres_changes(env("PLANTED_SHOP"), table="orders", via="triggers"))
async def changed(run: Run) -> None: ...


# What is used again, and so is stored as it is.


@action(safety="idempotent")
async def use(op: Operation, secret: str) -> str:
    return secret


@app.agent(on("use"), state=Kept, deliver="log")
async def uses(run: Run) -> dict[str, str]:
    run.state.text = SECRET
    return {"secret": await run.act(use, SECRET), **(run.event.data or {})}
"""


def forms(secret: str) -> set[str]:
    raw = secret.encode()
    return {
        secret,
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        b64encode(raw).decode().rstrip("=")[:-1],
        urlsafe_b64encode(raw).decode().rstrip("=")[:-1],
        b64encode(b"ada:" + raw).decode().rstrip("=")[6:-1],
    }


# The beginning of each of them too: no half of one may be left where a text was cut.
PLANTED = {"pl4nted"} | {form for secret in (SECRET, PASSWORD, TOKEN, SET["OTHER_PASSWORD"]) for form in forms(secret)}


def leaks(text: str | bytes) -> list[str]:
    """Where one of them stands, with what is around it."""
    whole = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return [whole[max(0, at - 80) : at + 80] for form in PLANTED if (at := whole.find(form)) >= 0]


@pytest.fixture
def leaky(folder, dialect, request, monkeypatch):
    """The app, its store, and the environment that all of it has."""
    (folder / "app.py").write_text(APP)
    url = "sqlite:///wakeful.db" if dialect == "sqlite" else request.getfixturevalue("postgres_url")
    for name, value in {**SET, "WAKEFUL_STORE": url}.items():
        monkeypatch.setenv(name, value)
    return {**SET, "WAKEFUL_STORE": url}


def stored(url: str) -> bytes:
    """All that is in the store, as whoever has the files or the dump reads it."""
    path = sqlite_path(url)
    if path is not None:
        return b"".join(
            one.read_bytes() for one in sorted(path.absolute().parent.glob(f"{path.name}*")) if one.is_file()
        )

    async def dump() -> bytes:
        tables = await query(url, "select tablename from pg_tables where tablename like 'wakeful%'")
        assert tables
        rows = [row[0] for (table,) in tables for row in await query(url, f"select one::text from {table} one")]
        return "\n".join(rows).encode()

    return asyncio.run(dump())


class Client:
    """The HTTP side, as the owner of the token sees it."""

    def __init__(self, url: str) -> None:
        self._http = httpx2.Client(
            base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60, trust_env=False
        )
        self.said: dict[str, str] = {}

    def close(self) -> None:
        self._http.close()

    def emit(self, kind: str, data: object = None) -> list[str]:
        event = {"id": kind, "source": "/test", "type": kind, "data": data}
        answer = self._http.post("/v1/events?wait=50s", json=event)
        self.said[f"emit {kind}"] = answer.text
        assert answer.status_code == 200, answer.text
        return answer.json()["events"][0]["runs"]

    def get(self, path: str) -> dict:
        answer = self._http.get(path)
        self.said[path] = answer.text
        return answer.json()

    def everything(self) -> None:
        """Every path that lists something, and each thing that it lists."""
        details = {
            "runs": "id",
            "deliveries": "id",
            "effects": "id",
            "quarantine": "key",
            "alarms": "key",
            "events": "key",
            "sources": "name",
        }
        paths = [path for path, verbs in self.get("/v1/openapi.json")["paths"].items() if "get" in verbs]
        for path in [*(path for path in paths if "{" not in path), "/v1/states/uses"]:
            listed = self.get(path).get(path.rpartition("/")[2])
            for one in listed if isinstance(listed, list) else ():
                if name := details.get(path.rpartition("/")[2]):
                    key = quote(str(one[name]), safe="")
                    self.get(f"{path}/{key}")
                    self.get(f"/v1/why/{key}")

    def hook(self, token: str) -> None:
        self._http.post(
            "/hooks/in", content=b"no json", headers={"Authorization": f"Bearer {token}", "X-Odd-Key": SECRET}
        )


COMMANDS = """
runs | events | alarms | deliveries | effects | quarantine | dead | sources | schedules | state | state uses | doctor | doctor app.py |
check app.py | expectations | apps | circuits | approvals | locks | reminders | keys | pause
"""


def test_it_is_found_nowhere(leaky, wakeful, start, folder):
    server = start(
        "serve", "app.py", "--port", "0", "--log-format", "json", "--log-level", "debug", "--access-log", env=leaky
    )
    client = Client(server.wait_for(r"serving leaky on (http://[^\s\"]+)")[1])
    runs = [run for kind in ("raise", "step", "log", "send", "deny", "command") for run in client.emit(kind)]
    assert len(runs) == 9
    client.hook("wrong")
    client.hook(SECRET)
    assert leaks(stored(leaky["WAKEFUL_STORE"])) == []

    # From here on it is also where it has to be: in what code uses again.
    runs += client.emit("use", {"secret": SECRET, "encoded": b64encode(SECRET.encode()).decode()})
    client.everything()
    assert {path: found for path, said in client.said.items() if (found := leaks(said))} == {}
    client.close()
    server.signal(signal.SIGTERM)
    server.end()
    assert leaks(server.output) == []
    assert server.output.count("[redacted: PLANTED_SECRET]") > 10  # it was there to be found

    working = start("once", "app.py", "--log-format", "text", "--log-level", "debug", env=leaky)
    working.end()
    assert leaks(working.output) == []
    assert leaks((folder / "alarms.jsonl").read_bytes()) == []
    assert "dead letter" in (folder / "alarms.jsonl").read_text()

    kept = wakeful("quarantine", "--json").json["quarantine"]
    words = [line.split() for line in COMMANDS.replace("\n", " ").split("|")]
    words += [[verb, run] for run in runs for verb in ("trace", "why")]
    words += [["why", one["event"]["id"]] for one in kept] + [["quarantine", "show", one["key"]] for one in kept]
    words += [["dead", "show", run] for run in runs] + [
        ["archive", "runs.jsonl"],
        ["archive", "runs.jsonl.gz", "--plan"],
    ]
    for one in words:
        for more in ([], ["--json"]):
            if one[0] == "archive" and more:
                continue
            said = wakeful(*one, *more, code=None)
            assert leaks(said.out + said.err) == [], (one, more)
    assert leaks((folder / "runs.jsonl").read_bytes()) == []
    assert len((folder / "runs.jsonl").read_text().splitlines()) >= 5


def test_errors_of_a_command_are_redacted_too(leaky, wakeful, monkeypatch, folder):
    monkeypatch.setenv("WAKEFUL_DEBUG", "1")
    Path("app.py").write_text(f"raise RuntimeError({SECRET!r})\n")
    for words in (("check", "app.py"), ("serve", "app.py"), ("emit", "app.py", "x"), ("run", SECRET, "x")):
        said = wakeful(*words, code=None)
        assert leaks(said.out + said.err) == [], words
        assert "[redacted: PLANTED_SECRET]" in said.out + said.err
