"""Links to approvals: one person answers one approval, once, on a page that needs no token but its own."""

from __future__ import annotations

import asyncio
import contextlib
import html
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.apps import NewApp, pass_time, the_run, working
from support.stores import query
from support.tokens import TOKEN, WITH_TOKEN
from wakeful import App, Run, on
from wakeful.clock import SECOND, VirtualClock
from wakeful.model import Receipt
from wakeful.policy.people import read_people
from wakeful.runtime import Runtime
from wakeful.stores.request import Actor
from wakeful.stores.verbs.approvals import AnswerApproval
from wakeful.stores.verbs.persons import ApplyPeople
from wakeful.tokens import new_token

URL = "https://wakeful.example.com"
PEOPLE = "people:\n  ada: {groups: [ops]}\n  bob: {groups: [ops]}\n"
ASK_TO_BEGIN = "policy: 1\nrules:\n  - {id: night, at: admission, answer: ask, reason: it is night}\n"


@dataclass
class Desk:
    """An app that asks, its server, and a browser without a token."""

    app: App
    runtime: Runtime
    http: httpx2.AsyncClient

    async def ask(self, **data: Any) -> tuple[Receipt, dict[str, Any]]:
        receipt = await self.app.emit("go", data)
        await self.runtime.drain()
        (one,) = [
            one
            for one in (await self.runtime.reader.approvals(state="open"))["approvals"]
            if one["run"] in receipt.runs
        ]
        return receipt, one

    async def link(self, approval: dict[str, Any], person: str = "ada", **more: Any) -> str:
        """The path of a new link."""
        made = await self.http.post(
            f"/v1/approvals/{approval['id']}/links", json={"for": person, **more}, headers=WITH_TOKEN
        )
        assert made.status_code == 200, made.text
        url: str = made.json()["url"]
        assert url.startswith(f"{URL}/approve/")
        return url.removeprefix(URL)

    async def answer(self, path: str, answer: str = "approve", note: str = "", **headers: str) -> httpx2.Response:
        """What a browser does: get the page, and send its form."""
        return await self.http.post(path, data=await self.form(path, answer, note), headers=headers)

    async def form(self, path: str, answer: str = "approve", note: str = "") -> dict[str, str]:
        found = re.search(r'name="digest" value="([^"]+)"', (await self.http.get(path)).text)
        assert found is not None
        return {"digest": html.unescape(found[1]), "answer": answer, "note": note}

    async def state(self, approval: dict[str, Any]) -> tuple[Any, ...]:
        (one,) = [one for one in (await self.runtime.reader.approvals())["approvals"] if one["id"] == approval["id"]]
        return one["state"], one["answer"], one["answered_by"], one["note"]


@contextlib.asynccontextmanager
async def served(app: App) -> AsyncIterator[Desk]:
    @app.agent(on("go"), name="agent")
    async def agent(run: Run) -> Any:
        data = run.event.data or {}
        schema = dict[str, bool] if data.get("odd") else bool
        return await run.ask(data.get("question", "may I?"), to="ops", schema=schema, timeout=data.get("timeout", "4h"))

    async with working(app) as runtime:
        transport = httpx2.ASGITransport(app.asgi(token=TOKEN), client=("203.0.113.9", 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://wakeful.example.com") as http:
            yield Desk(app, runtime, http)


@pytest.fixture
async def desk(new_app: NewApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.setenv("WAKEFUL_URL", URL)
    (tmp_path / "people.yaml").write_text(PEOPLE)
    async with served(new_app(people=tmp_path / "people.yaml")) as found:
        yield found


async def refusals(store_url: str) -> list[tuple[Any, ...]]:
    rows = await query(
        store_url,
        "select operator, detail, done, proved from wakeful_operation where verb = 'link refused' order by seq",
    )
    return [tuple(row) for row in rows]


class TestMaking:
    async def test_only_the_digest_is_stored(self, desk: Desk, store_url: str):
        _, approval = await desk.ask()
        made = await desk.http.post(
            f"/v1/approvals/{approval['id']}/links",
            json={"for": "ada", "expires": "30m", "note": "for the night"},
            headers=WITH_TOKEN,
        )
        told = made.json()
        token = told["url"].rpartition("/")[2]
        assert (len(token), told["person"], told["approval"]) == (43, "ada", approval["id"])
        assert told["expires_at"] == "2026-01-01T00:30:00Z"
        stored = await query(store_url, "select * from wakeful_link")
        assert len(stored) == 1
        assert token not in str(stored)
        audit = await query(store_url, "select operator, detail, target from wakeful_operation where verb = 'link'")
        assert audit == [("token", "for ada: for the night", approval["id"])]
        assert token not in str(await query(store_url, "select * from wakeful_operation"))

    async def test_ends_with_the_approval_at_the_latest(self, desk: Desk):
        _, approval = await desk.ask(timeout="2h")
        path = f"/v1/approvals/{approval['id']}/links"
        for given in ({}, {"expires": "3d"}, {"expires": "2026-05-01T00:00Z"}):
            made = await desk.http.post(path, json={"for": "ada", **given}, headers=WITH_TOKEN)
            assert made.json()["expires_at"] == "2026-01-01T02:00:00Z"

    @pytest.mark.parametrize(
        ("body", "status", "kind"),
        [
            ({"for": "eda"}, 422, "unknown-person"),
            ({"for": "ada", "expires": "2025-01-01T00:00Z"}, 422, "invalid-time"),
            ({"for": "ada", "expires": "soon"}, 400, "bad-body"),
            ({"for": "ada", "expires": "2026-05-01T00:00"}, 400, "bad-body"),
            ({}, 400, "bad-body"),
        ],
    )
    async def test_mistakes(self, desk: Desk, body: dict[str, str], status: int, kind: str):
        _, approval = await desk.ask()
        made = await desk.http.post(f"/v1/approvals/{approval['id']}/links", json=body, headers=WITH_TOKEN)
        assert (made.status_code, made.json()["type"].rpartition(":")[2]) == (status, kind), made.text

    async def test_needs_a_token_and_an_open_approval(self, desk: Desk):
        _, approval = await desk.ask()
        path = f"/v1/approvals/{approval['id']}/links"
        assert (await desk.http.post(path, json={"for": "ada"})).status_code == 401
        await desk.runtime.store.do(AnswerApproval(approval["id"], "true", by=Actor("bob", "code")))
        closed = await desk.http.post(path, json={"for": "ada"}, headers=WITH_TOKEN)
        assert (closed.status_code, "bob answered it" in closed.text) == (409, True)

    @pytest.mark.parametrize("url", [None, "", "wakeful.example.com", "ftp://x", "https://u@x", "https://x/?a=b"])
    async def test_needs_an_address(self, desk: Desk, monkeypatch: pytest.MonkeyPatch, url: str | None):
        monkeypatch.setenv("WAKEFUL_URL", url) if url is not None else monkeypatch.delenv("WAKEFUL_URL")
        _, approval = await desk.ask()
        made = await desk.http.post(f"/v1/approvals/{approval['id']}/links", json={"for": "ada"}, headers=WITH_TOKEN)
        assert (made.status_code, made.json()["type"].rpartition(":")[2]) == (409, "no-address")
        assert "like https://wakeful.example.com" in made.json()["detail"]


class TestPage:
    async def test_shows_what_is_asked_and_changes_nothing(self, desk: Desk, store_url: str):
        """A scanner fetches the link, again and again, before the person does."""
        _, approval = await desk.ask(question="refund <b>7</b>?\nfor \u202eeve")
        path = await desk.link(approval)
        before = await query(store_url, "select * from wakeful_link")
        for _ in range(30):
            for method in ("GET", "HEAD"):
                shown = await desk.http.request(
                    method, path, headers={"Sec-Fetch-Site": "cross-site", "User-Agent": "scanner"}
                )
                assert shown.status_code == 200
        page = (await desk.http.get(path)).text
        assert "refund &lt;b&gt;7&lt;/b&gt;?\nfor \\u202eeve" in page
        assert all(word in page for word in (">app<", ">agent<", ">ops<", "Approve", "Deny", "You answer as ada"))
        assert "<script" not in page
        assert (await desk.state(approval))[0] == "open"
        assert await query(store_url, "select * from wakeful_link") == before
        assert await refusals(store_url) == []
        assert (await desk.answer(path)).status_code == 200
        assert (await desk.state(approval))[0] == "answered"

    async def test_headers(self, desk: Desk):
        _, approval = await desk.ask()
        headers = (await desk.http.get(await desk.link(approval))).headers
        assert headers["content-type"] == "text/html; charset=utf-8"
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; style-src 'sha256-")
        assert policy.endswith("form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
        assert (headers["referrer-policy"], headers["cache-control"]) == ("no-referrer", "no-store")
        assert (headers["x-frame-options"], headers["x-content-type-options"]) == ("DENY", "nosniff")

    async def test_another_host_is_refused(self, desk: Desk):
        _, approval = await desk.ask()
        path = await desk.link(approval)
        assert (await desk.http.get(path, headers={"Host": "evil.example.com"})).status_code == 421

    async def test_a_question_that_needs_more_than_yes_or_no(self, desk: Desk):
        _, approval = await desk.ask(odd=True)
        path = await desk.link(approval)
        page = (await desk.http.get(path)).text
        assert "needs more than a yes or a no" in page
        assert "<form" not in page
        refused = await desk.http.post(path, data={"digest": "x", "answer": "approve"})
        assert refused.status_code == 400
        assert (await desk.state(approval))[0] == "open"


class TestAnswer:
    @pytest.mark.parametrize(("answer", "value"), [("approve", True), ("deny", False)])
    async def test_is_that_of_the_person(self, desk: Desk, store_url: str, answer: str, value: bool):
        receipt, approval = await desk.ask()
        path = await desk.link(approval)
        page = await desk.answer(path, answer, note="it <b>fits</b>\r\nwell")
        assert page.status_code == 200
        words = f"{'Approved' if value else 'Denied'} by ada at "
        assert words in page.text
        assert "it &lt;b&gt;fits&lt;/b&gt;" in page.text
        assert await desk.state(approval) == ("answered", value, "ada", "it <b>fits</b>\nwell")
        await desk.runtime.drain()
        assert (await the_run(desk.runtime, receipt))["output"] is value
        audit = await query(store_url, "select operator, way, proved from wakeful_operation where verb = 'answer'")
        assert audit == [("ada", "link", 0)]
        later = await desk.http.get(path)
        assert (later.status_code, words in later.text, "<form" in later.text) == (200, True, False)

    async def test_counts_once(self, desk: Desk, store_url: str):
        _, approval = await desk.ask()
        path = await desk.link(approval)
        form = await desk.form(path, "approve")
        first, *others = [
            await desk.http.post(path, data={**form, "answer": one}) for one in ("deny", "approve", "deny")
        ]
        assert (first.status_code, [one.status_code for one in others]) == (200, [409, 409])
        assert "This link was used before. Denied by ada" in others[0].text
        assert (await desk.state(approval))[1:3] == (False, "ada")
        assert await refusals(store_url) == [("ada", "used, 2 times", 2, 0)]

    async def test_two_at_once_count_once(self, desk: Desk, store_url: str):
        _, approval = await desk.ask()
        path = await desk.link(approval)
        form = await desk.form(path)
        answers = await asyncio.gather(
            *(desk.http.post(path, data={**form, "answer": one}) for one in ("approve", "deny") * 4)
        )
        assert sorted(one.status_code for one in answers) == [200] + [409] * 7
        assert len(await query(store_url, "select 1 from wakeful_operation where verb = 'answer'")) == 1

    async def test_the_first_of_two_people_counts(self, desk: Desk, store_url: str):
        _, approval = await desk.ask()
        adas, bobs = await desk.link(approval), await desk.link(approval, "bob")
        form = await desk.form(bobs, "deny")
        assert (await desk.answer(adas)).status_code == 200
        late = await desk.http.post(bobs, data=form)
        assert (late.status_code, "Approved by ada" in late.text) == (409, True)
        assert "Approved by ada" in (await desk.http.get(bobs)).text
        # The link was not used: it gave no answer.
        used = await query(store_url, "select person from wakeful_link where used_at is not null")
        assert used == [("ada",)]

    async def test_is_to_what_was_seen(self, desk: Desk):
        _, approval = await desk.ask()
        path = await desk.link(approval)
        form = await desk.form(path)
        changed = await desk.http.post(path, data={**form, "digest": "0" * 26})
        assert (changed.status_code, "has changed since" in changed.text) == (409, True)
        assert (await desk.state(approval))[0] == "open"
        assert (await desk.http.post(path, data=form)).status_code == 200

    @pytest.mark.parametrize(
        ("content", "kind", "status"),
        [
            ("answer=approve", None, 400),
            ("answer=perhaps&digest=x", None, 400),
            ("answer=approve&answer=deny&digest=x", None, 400),
            ("", None, 400),
            ("answer=approve&digest=x&a=1&b=2", None, 400),
            ("digest=x&answer=approve&note=" + "x" * 2001, None, 400),
            ("x" * 40_000, None, 413),
            ('{"answer": "approve"}', "application/json", 415),
            ("answer=approve&digest=x", "text/plain", 415),
        ],
    )
    async def test_forms_that_do_not_fit(self, desk: Desk, content: str, kind: str | None, status: int):
        _, approval = await desk.ask()
        path = await desk.link(approval)
        headers = {"Content-Type": kind or "application/x-www-form-urlencoded"}
        assert (await desk.http.post(path, content=content, headers=headers)).status_code == status
        assert (await desk.state(approval))[0] == "open"

    @pytest.mark.parametrize(
        ("headers", "status"),
        [
            ({}, 200),
            ({"Origin": "null", "Sec-Fetch-Site": "same-origin"}, 200),  # what our own page sends
            ({"Origin": URL, "Sec-Fetch-Site": "same-origin"}, 200),
            ({"Origin": "null"}, 200),
            ({"Origin": "null", "Sec-Fetch-Site": "cross-site"}, 403),
            ({"Origin": "https://evil.example.com"}, 403),
            ({"Origin": "https://evil.example.com", "Sec-Fetch-Site": "same-site"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({"Sec-Fetch-Site": "same-site"}, 403),
        ],
    )
    async def test_comes_from_our_own_page(self, desk: Desk, headers: dict[str, str], status: int):
        _, approval = await desk.ask()
        path = await desk.link(approval)
        assert (await desk.answer(path, **headers)).status_code == status
        assert (await desk.state(approval))[0] == ("answered" if status == 200 else "open")

    async def test_whether_a_run_may_begin(
        self, new_app: NewApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_url: str
    ):
        monkeypatch.setenv("WAKEFUL_URL", URL)
        (tmp_path / "policy.yaml").write_text(ASK_TO_BEGIN)
        async with served(new_app(policy=tmp_path / "policy.yaml")) as desk:
            receipt, approval = await desk.ask()
            path = await desk.link(approval, "whoever is on call")  # the app has no people
            # Without an end of its own, the approval waits for ever; its link does not.
            assert await query(store_url, "select expires_at - made_at from wakeful_link") == [(4 * 3600 * SECOND,)]
            page = (await desk.http.get(path)).text
            assert all(word in page for word in ("it is night", ">night<"))
            assert (await desk.answer(path, "deny")).status_code == 200
            assert (await the_run(desk.runtime, receipt))["state"] == "denied"
        audit = await query(store_url, "select operator, way, proved from wakeful_operation where verb = 'answer'")
        assert audit == [("whoever is on call", "link", 0)]  # no name is proved in an app without people


class TestRefused:
    async def test_forged(self, desk: Desk, store_url: str):
        _, approval = await desk.ask()
        path = await desk.link(approval)
        right = await desk.form(path)
        forged = [
            f"/approve/{new_token()}",
            path[:-1],
            f"{path}x",
            path.swapcase().replace("/APPROVE/", "/approve/"),
            "/approve/x",
        ]
        for one in forged:
            shown = await desk.http.get(one)
            assert (shown.status_code, "This link does not work" in shown.text) == (404, True)
            assert (await desk.http.post(one, data=right)).status_code == 404
        more = [(await desk.http.get(forged[0])).status_code for _ in range(5)]
        assert more == [429] * 5
        assert (await desk.http.get("/approve/")).status_code == 404
        assert (await desk.http.get(path)).status_code == 200  # a right link is never slowed
        ((who, detail, count, proved),) = await refusals(store_url)
        assert (who, detail, proved) == ("stranger", "forged, 10 times", 0)
        assert count == 10  # no more than that is written within a minute, and then in the same row

    async def test_expired(self, desk: Desk, store_url: str):
        _, approval = await desk.ask(timeout="8h")
        path = await desk.link(approval, expires="1h")
        form = await desk.form(path)
        await pass_time(desk.runtime, "1h")
        shown = await desk.http.get(path)
        assert (shown.status_code, "It has expired" in shown.text, "may I?" in shown.text) == (410, True, False)
        assert (await desk.http.post(path, data=form)).status_code == 410
        assert (await desk.state(approval))[0] == "open"
        assert await refusals(store_url) == [("ada", "expired, 2 times", 2, 0)]

    async def test_expires_between_the_page_and_the_answer(self, desk: Desk, clock: VirtualClock):
        """The transaction judges again: here only its own look sees that the time is over."""
        from wakeful.errors import LinkRefused
        from wakeful.resources.approval_links import digest_of

        _, approval = await desk.ask(timeout="8h")
        path = await desk.link(approval, expires="1h")
        clock.move("1h")
        digest = digest_of(path.rpartition("/")[2])
        with pytest.raises(LinkRefused, match="expired") as caught:
            await desk.runtime.store.do(AnswerApproval(approval["id"], "true", link=digest, by=Actor("ada", "link")))
        assert caught.value.reason == "expired"
        assert (await desk.state(approval))[0] == "open"

    async def test_of_a_person_who_left(self, desk: Desk, store_url: str):
        _, approval = await desk.ask()
        path = await desk.link(approval)
        form = await desk.form(path)
        found = read_people("people.yaml", "people: {bob: }")
        await desk.runtime.store.do(ApplyPeople("app", found.version, found.entries, by=Actor("eve", "cli")))
        assert (await desk.http.get(path)).status_code == 404
        assert (await desk.http.post(path, data=form)).status_code == 404
        assert (await desk.state(approval))[0] == "open"
        assert await refusals(store_url) == [("ada", "foreign, 2 times", 2, 0)]

    async def test_of_another_app(self, desk: Desk, new_app: NewApp, store_url: str):
        async with served(new_app("other")) as other:
            _, approval = await other.ask()
            path = await other.link(approval)
            form = await other.form(path)
            assert (await desk.http.get(path)).status_code == 404
            assert (await desk.http.post(path, data=form)).status_code == 404
            assert (await other.state(approval))[0] == "open"
            assert await refusals(store_url) == [("stranger", "foreign, 2 times", 2, 0)]
            assert (await other.answer(path)).status_code == 200

    async def test_of_another_approval(self, desk: Desk):
        from wakeful.errors import LinkRefused
        from wakeful.resources.approval_links import digest_of

        (_, first), (_, second) = await desk.ask(), await desk.ask()
        digest = digest_of((await desk.link(first)).rpartition("/")[2])
        with pytest.raises(LinkRefused, match="another approval"):
            await desk.runtime.store.do(AnswerApproval(second["id"], "true", link=digest, by=Actor("ada", "link")))
        assert (await desk.state(second))[0] == "open"

    async def test_what_it_was_about_is_over(self, desk: Desk):
        _, approval = await desk.ask(timeout="1h")
        path = await desk.link(approval)
        form = await desk.form(path)
        await pass_time(desk.runtime, "1h")
        assert (await desk.state(approval))[0] == "expired"
        assert (await desk.http.post(path, data=form)).status_code == 410
        assert (await desk.http.get(path)).status_code == 410

    async def test_a_scanner_does_not_fill_the_store(self, desk: Desk, store_url: str):
        _, approval = await desk.ask()
        path = await desk.link(approval)
        for _ in range(100):
            await desk.http.get(f"/approve/{new_token()}")
        assert len(await refusals(store_url)) == 1
        assert (await desk.answer(path)).status_code == 200
