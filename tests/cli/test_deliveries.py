"""`wakeful deliveries`, and dead deliveries in `wakeful dead`: a message that was given up is tried again, or shall not be sent."""

import pytest

APP = """
from pathlib import Path

from wakeful import App, Persistent, Run, on
from wakeful.channels import Channel


class Post(Channel):
    async def deliver(self, messages):
        if not Path("mended").exists():
            raise Persistent("550 no such mailbox: line " + messages[0].body)
        with Path("post").open("a") as file:
            file.writelines(f"{one.id} {one.body}\\n" for one in messages)


app = App("desk", channels={"post": Post(), "mail": Post()})


@app.agent(on("ticket.created"))
async def tell(run: Run) -> None:
    run.send("post", run.event.id)
    run.send("mail", run.event.id)
    run.send("log", "said", subject="A ticket")


@app.agent(on("ticket.broken"))
async def mend(run: Run) -> None:
    raise Persistent("broken for good")
"""


@pytest.fixture
def dead(wakeful, folder) -> list[str]:
    """Four dead deliveries, two to each channel, oldest first; the ids of those to `post`."""
    (folder / "app.py").write_text(APP)
    for number in ("1", "2"):
        wakeful("emit", "app.py", "ticket.created", "--id", number)
        wakeful("once", "app.py", code=None)
    page = wakeful("deliveries", "--channel", "post", "--state", "dead", "--json").json
    return [one["id"] for one in page["deliveries"]][::-1]


def sent(folder) -> list[str]:
    place = folder / "post"
    return place.read_text().splitlines() if place.exists() else []


def states(wakeful) -> list[str]:
    return sorted(one["state"] for one in wakeful("deliveries", "--json").json["deliveries"])


class TestLooking:
    def test_a_listing_fits_on_a_terminal_and_says_what_is_wrong(self, wakeful, dead, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        shown = wakeful("deliveries").out
        assert all(len(line) <= 80 for line in shown.splitlines())
        root, _, own = dead[0].partition("-")
        assert f"{root[:10]}-{own[:6]}  post     tell   dead" in shown
        assert "Persistent: " in shown
        assert 'A ticket: "said"' in shown

    def test_pages(self, wakeful, dead):
        first = wakeful("deliveries", "--limit", "4", "--json").json
        rest = wakeful("deliveries", "--limit", "4", "--json", "--after", first["next"]).json
        assert (len(first["deliveries"]), len(rest["deliveries"]), rest["next"]) == (4, 2, None)
        assert f"more deliveries: --after {first['next']}" in wakeful("deliveries", "--limit", "4").out
        assert "not a cursor" in wakeful("deliveries", "--after", "x", code=2).err

    def test_one(self, wakeful, dead):
        whole = wakeful("deliveries", "show", dead[0]).json
        assert (whole["id"], whole["channel"], whole["message"]) == (dead[0], "post", "1")
        root, _, own = dead[0].partition("-")
        for shorter in (f"{root[:6]}-{own[:6]}", f"{root}-{own[:8]}", f"{root[:8]}-{own}"):
            assert wakeful("deliveries", "show", shorter).json == whole
        assert wakeful("dead", "show", dead[0], "--json").json == whole
        shown = wakeful("dead", "show", dead[0]).out
        for words in (
            f"delivery {dead[0]}  dead",
            "to channel post",
            "error: ",
            'message: "1"',
            f"wakeful deliveries replay {dead[0]}",
        ):
            assert words in shown, words

    def test_nothing_yet(self, wakeful, folder):
        (folder / "app.py").write_text(APP)
        wakeful("migrate")
        assert wakeful("deliveries").out == "no deliveries yet. An agent makes one with `run.send(…)`.\n"

    def test_nothing_like_that(self, wakeful, dead):
        assert wakeful("deliveries", "--channel", "nowhere").out == "no matching deliveries\n"


class TestOne:
    def test_replay_sends_it_under_the_same_id(self, wakeful, folder, dead):
        (folder / "mended").touch()
        answer = wakeful("deliveries", "replay", dead[1], "--note", "new mailbox", "--as", "ada").out
        assert answer == f"delivery {dead[1]} to channel post: pending again, was dead\n"
        assert wakeful("deliveries", "show", dead[1]).json["reason"] == "replayed by ada: new mailbox"
        assert "It was replayed by ada: new mailbox." in wakeful("why", dead[1]).out
        wakeful("once", "app.py", code=None)
        assert sent(folder) == [f"{dead[1]} 2"]
        assert wakeful("deliveries", "show", dead[1]).json["state"] == "delivered"

    def test_discard(self, wakeful, folder, dead):
        answer = wakeful("dead", "discard", dead[0], "--as", "ada", "--json").json
        assert answer == {"delivery": dead[0], "was": "dead"}
        (folder / "mended").touch()
        wakeful("once", "app.py", code=None)
        assert sent(folder) == []
        shown = wakeful("deliveries", "show", dead[0]).json
        assert (shown["state"], shown["reason"]) == ("discarded", "discarded by ada")
        assert "discarded by ada" in wakeful("deliveries", "--state", "discarded").out

    def test_dead_replay_takes_it_too(self, wakeful, dead):
        assert "would replay delivery" in wakeful("dead", "replay", dead[0], "--plan").out
        assert states(wakeful).count("dead") == 4
        assert "pending again, was dead" in wakeful("dead", "replay", dead[0]).out
        assert "--data is for a run" in wakeful("dead", "replay", dead[1], "--data", "1", code=2).err

    @pytest.mark.parametrize("verb", ["replay", "discard"])
    def test_only_a_dead_one(self, wakeful, dead, verb):
        (log, *_) = wakeful("deliveries", "--channel", "log", "--json").json["deliveries"]
        refused = wakeful("deliveries", verb, log["id"], code=1).err
        assert f"is delivered: only a dead, unknown or pending delivery can be {verb}{'ed'}" in refused


class TestMany:
    def test_they_are_planned_and_then_sent_in_order(self, wakeful, folder, dead):
        (folder / "mended").touch()
        plan = wakeful("deliveries", "replay", "--channel", "post", "--plan", "--json").json
        assert (plan["count"], plan["groups"][0]["channel"], plan["groups"][0]["count"]) == (2, "post", 2)
        assert states(wakeful).count("dead") == 4
        done = wakeful("deliveries", "replay", "--channel", "post")
        assert done.out == "2 of 2 dead deliveries are pending again\n"
        assert "2  to post  Persistent: … no such mailbox" in done.err
        wakeful("once", "app.py", code=None)
        assert sent(folder) == [f"{dead[0]} 1", f"{dead[1]} 2"]

    def test_all_and_by_error(self, wakeful, dead):
        assert wakeful("deliveries", "discard", "--error", "LINE 1", "--json").json == {
            "redone": 2,
            "of": 2,
            "stopped": False,
        }
        assert wakeful("deliveries", "discard", "--all").out == "2 of 2 dead deliveries discarded\n"
        assert "no dead delivery matches" in wakeful("deliveries", "discard", "--all", code=1).err
        assert states(wakeful) == ["delivered"] * 2 + ["discarded"] * 4

    def test_over_ten_thousand_need_a_yes(self, wakeful, dead, monkeypatch):
        monkeypatch.setattr("wakeful.shell.carrying.MANY", 3)
        assert "4 dead deliveries are more than 3: add --yes" in wakeful("deliveries", "replay", "--all", code=2).err
        assert "4 of 4" in wakeful("deliveries", "replay", "--all", "--yes").out


class TestDeadLetters:
    def test_they_are_grouped_by_channel_and_error_beside_the_runs(self, wakeful, dead):
        wakeful("emit", "app.py", "ticket.broken", "--id", "3")
        wakeful("once", "app.py", code=None)
        run, *deliveries = wakeful("dead", "list", "--json").json["groups"]
        assert (run["kind"], run["agent"], run["count"]) == ("run", "mend", 1)
        assert [(one["kind"], one["count"]) for one in deliveries] == [("delivery", 2)] * 2
        assert sorted(one["channel"] for one in deliveries) == ["mail", "post"]
        assert all(one["error"] == "Persistent: … no such mailbox: line …" for one in deliveries)
        shown = wakeful("dead").out
        assert "agent  count  last" in shown
        assert "channel  count  last" in shown
        assert dead[1] in shown
        only = wakeful("dead", "list", "--agent", "mend", "--json").json["groups"]
        assert [one["kind"] for one in only] == ["run"]
        assert wakeful("dead", "list", "--error", "good", "--json").json["groups"] == [run]

    def test_many_runs_at_once_are_runs_only_and_that_is_said(self, wakeful, dead):
        said = wakeful("dead", "replay", "--all", code=1).err
        assert "no dead run matches, but 4 dead deliveries: use `wakeful deliveries replay --all`" in said
        wakeful("emit", "app.py", "ticket.broken", "--id", "3")
        wakeful("once", "app.py", code=None)
        done = wakeful("dead", "discard", "--all", "--rate", "max")
        assert "1 of 1 dead letter discarded" in done.out
        assert "there are also 4 dead deliveries: use `wakeful deliveries discard --all`" in done.err
        assert states(wakeful).count("dead") == 4

    def test_doctor_counts_them(self, wakeful, dead):
        found = {one["what"]: one for one in wakeful("doctor", "--json", code=None).json["findings"]}
        assert (found["dead letters"]["text"], found["dead letters"]["remedy"]) == ("4 deliveries", "wakeful dead list")


class TestWhy:
    def test_a_delivery_has_a_story(self, wakeful, dead):
        story = wakeful("why", dead[0]).out
        assert f"Delivery {dead[0]} goes to channel post. It comes from run" in story
        assert "The last error was Persistent: 550 no such mailbox: line 1." in story
        assert f"`wakeful deliveries replay {dead[0]}`" in story
        told = wakeful("why", dead[0], "--json").json
        assert told["subject"] == {"kind": "delivery", "id": dead[0]}
        assert told["event"]["id"] == "1"

    def test_a_run_tells_of_its_messages(self, wakeful, dead):
        story = wakeful("why", "1").out
        assert "The run has 3 deliveries: 1 delivered, 2 dead." in story
        assert f"The delivery to post ({dead[0]}) is dead" in story


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("replya", "x"), 'there is no "deliveries replya". Did you mean "replay"?'),
        (("list", "x"), "deliveries list takes no ID"),
        (("show",), "deliveries show takes one ID"),
        (("replay",), "no delivery is selected: give an ID, --channel NAME, --error TEXT or --all"),
        (("replay", "x", "y"), "takes one ID; for several use"),
        (("discard", "x-1", "--all"), "are for many deliveries: leave out either the ID or these options"),
        (("replay", "--all", "--state", "pending"), "only dead deliveries can be replayed"),
        (("show", "nothing"), 'there is no delivery "nothing"'),
        (("replay", "nothing-1"), 'there is no delivery "nothing-1"'),
        (("replay", "--channel", "psot"), "no dead delivery matches"),
        (("--state", "daed"), 'no state "daed". Did you mean "dead"?'),
    ],
)
def test_wrong_words_are_answered_clearly(wakeful, dead, words, said):
    assert said in wakeful("deliveries", *words, code=None).err


def test_replay_of_a_delivery_points_the_way(wakeful, dead):
    assert "a delivery is replayed by `wakeful deliveries replay ID`" in wakeful("replay", dead[0], code=1).err
