"""webhook(…): what it takes, what it refuses, and what a request becomes."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.hooks import Anybody, Signed, delivery
from wakeful import App, ConfigError, Run, env, webhook
from wakeful.clock import SECOND
from wakeful.errors import InvalidEvent
from wakeful.rate import Rate
from wakeful.size import read_size
from wakeful.triggers.allowance import Allowance
from wakeful.triggers.base import Trigger
from wakeful.triggers.endpoint import RECEIVED, Endpoint, endpoint_problems, read_endpoints
from wakeful.verify import Delivered, WebhookRequest


def hook(path: str = "/hooks/x", **options: Any):
    return webhook(path, **{"verify": Signed(), **options})


def request(data: Any = None, *, headers: dict[str, str] | None = None, **more: Any) -> WebhookRequest:
    body, signed = delivery({"id": 7} if data is None else data, **more)
    return WebhookRequest("/hooks/x", signed | (headers or {}), body, 0)


async def slowly(what: Any) -> Any:
    return what


class Slowly:
    async def __call__(self, what: Any) -> Any:
        return what


class TestDeclaring:
    def test_it_is_a_trigger_and_a_value(self):
        assert isinstance(hook(), Trigger)
        assert hook(type="a.*") == hook(type="a.*")
        assert hook(type="a") != hook(type="b")
        assert hash(hook()) == hash(hook())
        assert (hook().type, hook().source, hook().carries_data) == ("*", "/hooks/x", True)
        assert hook(source="/desk").source == "/desk"

    def test_it_shows_how_it_is_written_and_no_secret(self):
        one = hook(verify=Signed("hush"), type="signed.*", where="data.id > 1")
        assert one.describe() == 'webhook("/hooks/x", verify=signed(…), type="signed.*", where="data.id > 1")'

    @pytest.mark.parametrize(
        ("path", "words"),
        [
            ("hooks", "begin with a slash"),
            (7, "begin with a slash"),
            ("/", "the console is there"),
            ("/v1/hooks", "/v1 belongs to the server"),
            ("/healthz", "belongs to the server"),
            ("/readyz", "belongs to the server"),
            ("/metrics/x", "belongs to the server"),
            ("/a/", "words between slashes"),
            ("/a//b", "words between slashes"),
            ("/a b", "words between slashes"),
            ("/a?b=1", "words between slashes"),
            ("/{name}", "words between slashes"),
            ("/a/../v1", "words between slashes"),
            ("/ä", "words between slashes"),
        ],
    )
    def test_a_path_that_cannot_be_one(self, path: Any, words: str):
        with pytest.raises(ConfigError, match=re.escape(words)):
            hook(path)

    def test_a_path_that_only_begins_like_one_of_ours(self):
        assert hook("/v10").path == "/v10"

    def test_forgetting_who_may_call_is_refused(self):
        with pytest.raises(ConfigError, match=r'webhook\("/x"\): verify is missing.*none\(\) accepts every caller'):
            webhook("/x")
        with pytest.raises(ConfigError, match="call it, like Signed"):
            webhook("/x", verify=Signed)  # type: ignore[arg-type]

    def test_a_secret_in_the_place_of_a_verifier_is_not_repeated(self):
        with pytest.raises(ConfigError, match="verify must be one of") as refused:
            webhook("/x", verify="hush-hush")  # type: ignore[arg-type]
        assert "hush" not in str(refused.value)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"tpye": "a"}, 'unknown option "tpye". Did you mean "type"?'),
            ({"type": " a"}, "type must be text without spaces"),
            ({"type": 7}, "type must be text"),
            ({"source": "x" * 2000}, "over the limit of 1,024"),
            ({"body_limit": "1 cow"}, "is not a size"),
            ({"body_limit": 0}, "is not a size"),
            ({"rate": "fast"}, "is not a rate"),
            ({"rate": 7}, "rate must be a number per time"),
            ({"where": "data."}, "is not a CEL expression"),
            ({"id": "daat.id"}, 'Did you mean "data.id"?'),
            ({"id": "header:"}, "names no header"),
            ({"id": 7}, "id must be"),
            ({"data": 7}, "data must be a CEL expression"),
            ({"data": "data."}, "is not a CEL expression"),
            ({"data": slowly}, "data is an async function"),
            ({"id": slowly}, "id is an async function"),
            ({"data": Slowly()}, "data is an async function"),
        ],
    )
    def test_an_option_that_is_wrong_is_one_line_that_says_where(self, options: dict[str, Any], words: str):
        with pytest.raises(ConfigError) as refused:
            hook(**options)
        assert words in str(refused.value)
        assert str(refused.value).startswith('webhook("/hooks/x")')
        assert "\n" not in str(refused.value)


class TestOneEndpoint:
    def agents(self, *webhooks: Any):
        app = App("desk")
        for number, one in enumerate(webhooks):

            @app.agent(one, name=f"agent{number}")
            async def handle(run: Run) -> None: ...

        return list(app.agents.values())

    def test_agents_share_a_path(self):
        agents = self.agents(
            hook(type="signed.opened"), hook(type="signed.closed", where="data.id == 1"), hook("/other")
        )
        assert endpoint_problems(agents) == []
        assert list(read_endpoints(agents)) == ["/hooks/x", "/other"]

    @pytest.mark.parametrize(
        "other",
        [
            {"verify": Signed("another")},
            {"id": "content"},
            {"data": "data.id"},
            {"source": "/desk"},
            {"body_limit": 10},
            {"rate": "1/s"},
        ],
    )
    def test_what_they_must_agree_on(self, other: dict[str, Any]):
        (name,) = other
        agents = self.agents(hook(), hook(**other))
        (problem,) = endpoint_problems(agents)
        assert f"differ in {name}=" in problem
        assert all(f"{one.name} ({one.written_at})" in problem for one in agents)
        with pytest.raises(ConfigError, match="one path is one endpoint"):
            read_endpoints(agents)

    def test_two_paths_are_two_sources(self):
        """The source tells what an agent hears: one that wants a signature must not hear what anybody says elsewhere."""
        for other in (hook("/open", verify=Anybody(), source="/hooks/x"), hook("/open", source="/hooks/x")):
            agents = self.agents(hook(), hook(type="signed.opened"), other)
            (problem,) = endpoint_problems(agents)
            assert 'give two paths the source "/hooks/x"' in problem
            assert agents[0].written_at in problem
            assert agents[2].written_at in problem
            with pytest.raises(ConfigError, match="set another source="):
                read_endpoints(agents)


class TestWhatARequestBecomes:
    def event(self, *webhooks: Any, **how: Any):
        return Endpoint(webhooks or [hook()]).read(request(**how))[0]

    def test_what_the_sender_tells(self):
        event, aliases, answer = self.event()
        assert answer is None
        assert (event.source, event.id, event.type, event.data) == ("/hooks/x", "1", "signed.opened", {"id": 7})
        assert aliases == (request().headers["x-signature"],)

    def test_a_type_for_senders_that_tell_none(self):
        assert self.event(kind=None)[0].type == RECEIVED
        assert self.event(hook(type="order.paid"), kind=None)[0].type == "order.paid"
        assert self.event(hook(type="order.*"), kind=None)[0].type == RECEIVED
        assert self.event(hook(type="order.paid"), hook(type="order.paid", where="data.id == 1"), kind=None)[
            0
        ].type == ("order.paid")
        with pytest.raises(InvalidEvent, match=r"agents name several \(a, b\)"):
            self.event(hook(type="a"), hook(type="b"), kind=None)
        assert self.event(hook(type="a"), hook(type="b"))[0].type == "signed.opened"
        assert self.event(hook(type="order.paid"))[0].type == "signed.opened"

    def test_without_an_id_it_is_known_by_its_content(self):
        one, two = self.event(id=None)[0].id, self.event(hook(id="content"))[0].id
        assert one == two
        assert one != self.event(data={"id": 8}, id=None)[0].id
        assert one != self.event(data=b'{"id":7}', id=None)[0].id  # byte by byte

    def test_other_ids(self):
        assert self.event(hook(id="header:X-Request-Id"), headers={"x-request-id": "r1"})[0].id == "r1"
        assert self.event(hook(id="data.id"))[0].id == "7"
        assert self.event(hook(id='event.type + "/" + string(data.id)'))[0].id == "signed.opened/7"
        assert self.event(hook(id=lambda request: len(request.body)))[0].id == "9"

    @pytest.mark.parametrize(
        ("identity", "words"),
        [
            ("header:X-Request-Id", "has no header X-Request-Id"),
            ("data.name", "no field data.name"),
            ("data", "neither text nor a whole number"),
            (lambda request: request.nothing, "AttributeError"),
            (lambda _: True, "neither text nor a whole number"),
            (lambda _: "x" * 2000, "id is not text of 1 to 1,024"),
            (lambda _: "a\0b", "id holds a NUL"),
        ],
    )
    def test_an_id_that_cannot_be_told(self, identity: Any, words: str):
        with pytest.raises(InvalidEvent, match=words):
            self.event(hook(id=identity))

    def test_data_in_another_form(self):
        assert self.event(hook(data="data.id + 1"))[0].data == 8
        assert self.event(hook(data=lambda data: [data["id"]]))[0].data == [7]
        with pytest.raises(InvalidEvent, match="data= failed"):
            self.event(hook(data=lambda data: data["nothing"]))

    def test_what_no_store_takes_is_refused(self):
        def told(**more: Any):
            class Teller(Anybody):
                def read(self, request: WebhookRequest) -> Delivered:
                    return Delivered(**{"data": None, **more})

            return Endpoint([hook(verify=Teller())]).read(request())[0]

        assert told(time=datetime(2026, 1, 1))[0].time is not None
        for wrong in (
            {"data": {"a": "\0"}},
            {"data": {"a": float("nan")}},
            {"data": {"a": 2**70}},
            {"data": (2**70,)},
            {"data": object()},
            {"data": {"a": b"\xff"}},
            {"id": "a\0"},
            {"type": "\ud800"},
            {"subject": "x" * 2000},
            {"extensions": {"Wrong Name": 1}},
            {"extensions": {"fine": "\0"}},
            {"extensions": {"fine": 2**70}},
            {"extensions": {"fine": [1]}},
            {"extensions": {"id": "another"}},
            {"extensions": {"expirytime": "never"}},
            {"extensions": {1: "a"}},
            {"extensions": None},
            {"time": "today"},
            {"aliases": (1,)},
            {"aliases": None},
            {"answer": "yes"},
        ):
            with pytest.raises(InvalidEvent):
                told(**wrong)

    def test_further_names_are_those_of_one_event(self):
        """Else the others would be taken for it."""

        class Several(Anybody):
            def read_all(self, request: WebhookRequest) -> list[Delivered]:
                return [Delivered(n, id=str(n), aliases=("one",) * (n == 2)) for n in range(int(request.body))]

        endpoint = Endpoint([hook(verify=Several())])
        assert len(endpoint.read(request(b"2"))) == 2
        with pytest.raises(InvalidEvent, match="several events of one request"):
            endpoint.read(request(b"3"))


def test_sizes():
    assert [read_size(one) for one in (5, "5 B", "64kB", "1MB", "2 MiB")] == [5, 5, 64_000, 1_000_000, 2 << 20]
    for wrong in (0, -1, True, "", "MB", "1", "1.5MB", "1 parsec"):
        with pytest.raises(ValueError, match="is not a size"):
            read_size(wrong)


class TestAllowance:
    def test_all_of_it_at_once_and_then_the_rate(self):
        one = Allowance(Rate(3, SECOND))
        assert [one.take(1000) for _ in range(4)] == [True, True, True, False]
        assert 0 < one.wait(1000) <= SECOND // 3 + 1
        later = 1000 + one.wait(1000)
        assert [one.take(later) for _ in range(2)] == [True, False]

    def test_a_clock_that_is_set_back_gives_nothing(self):
        one = Allowance(Rate(1, SECOND))
        assert one.take(10 * SECOND)
        assert not one.take(0)
        assert one.take(SECOND)

    @given(st.lists(st.integers(0, 10 * SECOND), max_size=200), st.integers(1, 20))
    def test_never_more_than_the_rate(self, moments: list[int], most: int):
        one = Allowance(Rate(most, SECOND))
        taken = [at for at in sorted(moments) if one.take(at)]
        for start in taken:
            assert sum(start <= at < start + SECOND for at in taken) <= 2 * most


def test_a_missing_secret_is_named_with_its_place(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("HOOK", raising=False)
    one = Endpoint([hook(verify=Signed(env("HOOK")))])
    with pytest.raises(ConfigError, match=r'webhook\("/hooks/x"\): the environment variable HOOK is not set'):
        one.verifier.open(one.place)
