"""`wakeful sources` and `wakeful quarantine`: what brings events in, and what could not be taken in."""

import re
from pathlib import Path

import pytest

from support.tokens import TOKEN

APP = """
from support.tape import Tape
from wakeful import App, Run

app = App("library")


@app.agent(Tape("tape.txt"))
async def note(run: Run) -> str:
    return run.event.data["line"]
"""


@pytest.fixture
def library(folder):
    """An app with a source, and two lines of it that cannot be read."""
    (folder / "app.py").write_text(APP)
    (folder / "tape.txt").write_text("one\n?two\nthree\n?\x1b[31mfour\n")
    return folder


@pytest.fixture
def read_once(wakeful, library):
    wakeful("once", "app.py")
    return library


def the_key(wakeful, size: int = 4) -> str:
    """Of what is in quarantine: "?two", or the one that is longer."""
    (key,) = [one["key"] for one in wakeful("quarantine", "--json").json["quarantine"] if one["size"] == size]
    return str(key)


class TestSources:
    def test_none_yet(self, wakeful, folder):
        (folder / "app.py").write_text('from wakeful import App\n\napp = App("empty")\n')
        wakeful("once", "app.py")
        assert "no sources yet" in wakeful("sources").out
        assert wakeful("sources", "--json").json == {"sources": []}
        assert "is empty and always was" in wakeful("quarantine").out

    def test_are_listed(self, wakeful, read_once, monkeypatch):
        (source,) = wakeful("sources", "--json").json["sources"]
        assert (source["name"], source["kind"], source["taken"], source["kept"]) == ("tape.txt", "tape", 2, 2)
        assert source["agents"] == ["note"]
        assert source["unread"] == "not read: no worker of app library is alive"
        monkeypatch.setenv("COLUMNS", "160")
        shown = wakeful("sources").out
        assert re.search(r"tape.txt +tape +idle ", shown)
        assert "no worker of app library is alive" in shown
        assert wakeful("sources", "--state", "failing", "--json").json == {"sources": []}
        assert "no matching sources" in wakeful("sources", "--of", "other").out
        assert 'Did you mean "failing"?' in wakeful("sources", "--state", "faling", code=2).err

    @pytest.mark.parametrize("columns", [80, 120])
    def test_narrow(self, wakeful, folder, monkeypatch, columns):
        (folder / "inbox").mkdir()
        (folder / "inbox" / "big.md").write_text("x" * 100)
        (folder / "app.py").write_text(
            "from wakeful import App, Run, files\n"
            "app = App('library')\n"
            "@app.agent(files('inbox/*.md', max_size=10, settle='0s'))\n"
            "async def note(run: Run) -> None: ...\n"
        )
        wakeful("once", "app.py")
        (one,) = wakeful("quarantine", "--json").json["quarantine"]
        assert not re.search(r"came at .* bytes", wakeful("quarantine", "show", one["key"]).out)
        monkeypatch.setenv("COLUMNS", str(columns))
        for words, why in ((["quarantine"], "larger than max_size"), (["sources"], "not read")):
            listed = wakeful(*words).out
            assert why in " ".join(listed.split())
            assert all(len(line) <= columns for line in listed.splitlines())

    def test_one_of_them(self, wakeful, read_once):
        detail = wakeful("sources", "tape.txt", "--json").json
        assert (detail["cursor"], detail["token"], detail["alarms"]) == ("4", 1, [])
        shown = wakeful("sources", "tape.txt").out
        assert "cursor" in shown
        assert "2 events; 2 quarantined" in shown
        assert "wakeful quarantine --source tape.txt" in shown
        assert 'Did you mean "tape.txt"?' in wakeful("sources", "tap.txt", code=1).err
        assert "It brought 2 events" in wakeful("why", "tape.txt").out

    def test_one_that_fails(self, wakeful, library, monkeypatch):
        (library / "tape.trouble").write_text("the tape is torn: mend it")
        wakeful("once", "app.py")
        shown = wakeful("sources", "tape.txt").out
        assert "the tape is torn: mend it" in shown
        assert "alarm" in shown
        monkeypatch.setenv("COLUMNS", "200")
        assert "the tape is torn: mend it; not read" in wakeful("sources").out
        (finding,) = [one for one in wakeful("doctor", "--json", code=1).json["findings"] if one["what"] == "sources"]
        assert "fails: the tape is torn: mend it; not read" in finding["text"]
        assert "Reading it has failed since" in wakeful("why", "tape.txt").out

    def test_the_doctor_looks_at_them(self, wakeful, read_once):
        findings = wakeful("doctor", "--json", code=1).json["findings"]
        (sources,) = [one for one in findings if one["what"] == "sources"]
        assert sources["verdict"] == "look"
        assert "no worker of app library is alive" in sources["text"]
        (letters,) = [one for one in findings if one["what"] == "dead letters"]
        assert letters["text"] == "2 inputs in quarantine"

    def test_one_is_forgotten(self, wakeful, read_once):
        assert "forgotten" in wakeful("sources", "forget", "tape.txt", "--note", "gone").out
        assert wakeful("sources", "--json").json == {"sources": []}
        assert "no source" in wakeful("sources", "forget", "tape.txt", code=1).err
        assert "takes a NAME" in wakeful("sources", "forget", code=2).err


class TestChecking:
    def test_what_is_in_the_way_is_said_and_the_rest_too(self, wakeful, library):
        assert "no problems" in wakeful("check", "app.py").out
        (library / "tape.trouble").write_text("the tape is torn: mend it")
        result = wakeful("check", "app.py", code=1)
        assert result.err == "wakeful: the tape is torn: mend it\n"
        assert "note" in result.out

    def test_two_of_one_name(self, wakeful, library):
        other = APP.replace('Tape("tape.txt")', 'Tape("tape.txt"), Tape("other/tape.txt")')
        (library / "app.py").write_text(other)
        assert "two sources are called tape.txt" in wakeful("check", "app.py", code=1).err

    def test_one_that_does_not_answer(self, wakeful, library, monkeypatch):
        (library / "tape.silent").touch()
        monkeypatch.setattr("wakeful.operations.sources.problems_of.__kwdefaults__", {"within": 0.05})
        assert "no answer within 0.05 s" in wakeful("check", "app.py", code=1).err


class TestQuarantine:
    def test_is_listed_with_the_events(self, wakeful, read_once, monkeypatch):
        page = wakeful("quarantine", "--json").json
        events = wakeful("events", "--state", "quarantined", "--json").json
        quarantined = wakeful("events", "--quarantined", "--json").json
        assert [one.pop("quarantine") for one in quarantined["events"]] == page["quarantine"]
        assert quarantined == events
        assert {one["size"] for one in page["quarantine"]} == {10, 4}
        monkeypatch.setenv("COLUMNS", "150")
        shown = wakeful("events", "--quarantined").out
        assert shown.count("it begins with a question mark") == 2
        assert "\x1b" not in shown
        first = wakeful("quarantine", "--limit", "1", "--json").json
        second = wakeful("quarantine", "--limit", "1", "--after", first["next"], "--json").json
        assert (first["quarantine"] + second["quarantine"], second["next"]) == (page["quarantine"], None)
        assert wakeful("events", "--quarantined", "--source", "other", "--json").json["events"] == []
        assert wakeful("events", "--quarantined", "--kind", "unverified", "--json").json["events"] == []
        assert "are for --quarantined" in wakeful("events", "--source", "x", code=2).err
        assert "--source and --kind" in wakeful("events", "--quarantined", "--type", "x", code=2).err
        assert "not a cursor" in wakeful("quarantine", "--after", "x", code=2).err

    def test_one_of_them(self, wakeful, read_once):
        key = the_key(wakeful)
        shown = wakeful("quarantine", "show", key[:8]).out
        assert "?two" in shown
        assert "Cookie: (not kept)" in shown
        assert wakeful("quarantine", "show", key, "--json").json["raw"] == "P3R3bw=="
        assert "\x1b" not in wakeful("quarantine", "show", the_key(wakeful, 10)).out
        wakeful("quarantine", "show", key, "--raw", "raw.bin")
        assert (read_once / "raw.bin").read_bytes() == b"?two"
        assert "No such file" in wakeful("quarantine", "show", key, "--raw", "no/raw.bin", code=2).err
        assert 'no input "none" in quarantine' in wakeful("quarantine", "show", "none", code=1).err
        told = wakeful("why", key).out
        assert "quarantined" in told
        assert f"wakeful quarantine release APP {key}" in told
        assert wakeful("why", key[:8]).out == told

    def test_bytes_that_are_no_text(self, wakeful, library):
        from wakeful.resources.quarantine import in_words

        assert in_words(b"\xff\xfe\x00\x01" * 5).startswith("ff fe 00 01")
        assert in_words("äöü".encode()[:-1]) == "äö"

    def test_release_and_discard(self, wakeful, read_once):
        key, other = the_key(wakeful), the_key(wakeful, 10)
        refused = wakeful("quarantine", "release", "app.py", key, code=1).err
        assert (
            "still cannot be taken in and stays in quarantine: tape tape.txt: it still begins with a question mark"
            in refused
        )
        (read_once / "tape.mended").touch()
        assert "event 1 from /tape.txt: accepted, 1 run" in wakeful("quarantine", "release", "app.py", key[:10]).out
        again = wakeful("quarantine", "release", "app.py", key, code=1).err
        assert "was released by" in again
        wakeful("once", "app.py")
        outputs = {run["id"] for run in wakeful("runs", "--state", "done", "--json").json["runs"]}
        assert len(outputs) == 3
        done = wakeful("quarantine", "discard", other, "--note", "noise", "--as", "ada", "--json").json
        assert done == {"key": other, "state": "discarded", "events": []}
        assert "ada discarded it" in wakeful("why", other).out
        assert wakeful("quarantine", "--state", "kept", "--json").json["quarantine"] == []

    def test_all_of_a_source_after_a_plan(self, wakeful, read_once):
        plan = wakeful("quarantine", "release", "app.py", "--all", "--source", "tape.txt", "--plan").out
        assert plan == "would release 2 inputs of source tape.txt\n"
        result = wakeful("quarantine", "release", "--all", "--source", "tape.txt", code=1)
        assert result.out == "0 of 2 inputs released\n"
        assert "2  stay: tape tape.txt: it still begins" in result.err
        (read_once / "tape.mended").touch()
        assert wakeful("quarantine", "release", "--all", "--source", "tape.txt").out == "2 of 2 inputs released\n"
        assert (
            "no input of source tape.txt"
            in wakeful("quarantine", "discard", "--all", "--source", "tape.txt", code=1).err
        )

    def test_discard_all(self, wakeful, read_once):
        result = wakeful("quarantine", "discard", "--all", "--source", "tape.txt", "--json").json
        assert (result["done"], result["of"], result["still_wrong"]) == (2, 2, 0)
        assert "no source" in wakeful("quarantine", "discard", "--all", "--source", "tap", code=1).err

    def test_dead_letters_have_inputs_among_them(self, wakeful, read_once):
        (group,) = wakeful("dead", "list", "--json").json["groups"]
        assert (group["kind"], group["source"], group["count"]) == ("input", "tape.txt", 2)
        assert "For inputs use `wakeful quarantine`" in wakeful("dead").out

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("shwo", "x"), 'Did you mean "show"?'),
            (("list", "x"), "takes no ID"),
            (("show",), "takes one ID"),
            (("discard",), "takes one ID"),
            (("discard", "x", "--trust"), "--trust is for release"),
            (("release", "x", "--raw", "-"), "--raw is for show"),
            (("release", "--all"), "--all needs a source"),
            (("release",), "takes APP and an ID"),
            (("release", "a.py", "b", "c"), "takes APP and an ID"),
            (("release", "x", "--source", "y"), "takes an ID, or --all"),
            (("list", "--all"), "--all is for release and discard"),
        ],
    )
    def test_called_the_wrong_way(self, wakeful, folder, words, said):
        assert said in wakeful("quarantine", *words, code=2).err

    def test_what_http_answers_is_the_same(self, start, wakeful, read_once):
        import httpx2

        key = the_key(wakeful)
        support = str(Path(__file__).parents[1])  # where the app finds its trigger
        server = start("serve", "app.py", "--port", "0", env={"WAKEFUL_TOKEN": TOKEN, "PYTHONPATH": support})
        url = server.wait_for(r"on (http://\S+)")[1]
        headers = {"Authorization": f"Bearer {TOKEN}", "Wakeful-Operator": "ada", "Content-Type": "application/json"}

        def get(path: str):
            return httpx2.get(url + path, headers=headers, trust_env=False).json()

        def post(path: str, body: object):
            return httpx2.post(url + path, json=body, headers=headers, trust_env=False)

        assert get("/v1/quarantine") == wakeful("quarantine", "--json").json
        assert get(f"/v1/quarantine/{key}") == wakeful("quarantine", "show", key, "--json").json
        assert get("/v1/sources/tape.txt")["name"] == "tape.txt"
        assert get("/readyz")["parts"]["sources"]["ok"] is True
        assert post(f"/v1/quarantine/{key}/release", {}).status_code == 422
        (read_once / "tape.mended").touch()
        released = post(f"/v1/quarantine/{key}/release", {"note": "mended"}).json()
        assert (released["state"], released["events"][0]["status"]) == ("released", "accepted")
        assert post(f"/v1/quarantine/{key}/release", {"trust": True}).status_code == 409
        assert post("/v1/quarantine/none/discard", {}).status_code == 404
        assert post(f"/v1/quarantine/{key}/release", {"trust": "yes"}).status_code == 400
