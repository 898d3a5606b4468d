"""A delivery that may have arrived, on the command line: what people see, and what they do about it."""

import pytest

APP = """
from pathlib import Path

from wakeful import App, Run, on
from wakeful.channels import Channel, Sent


class Post(Channel):
    on_doubt = "hold"

    async def deliver(self, messages):
        if not Path("mended").exists():
            raise TimeoutError("no answer from the post office")
        return [Sent("L-7", "https://example.com/L-7") for _ in messages]


app = App("desk", channels={"post": Post()})


@app.agent(on("ticket.created"))
async def tell(run: Run) -> None:
    run.send("post", "dear Kim", subject="A letter", thread="kim")
"""


@pytest.fixture
def unknown(wakeful, folder) -> str:
    (folder / "app.py").write_text(APP)
    wakeful("emit", "app.py", "ticket.created", "--id", "1")
    assert "deliveries: 1 unknown" in wakeful("once", "app.py", code=None).out
    (one,) = wakeful("deliveries", "--state", "unknown", "--json").json["deliveries"]
    (folder / "mended").touch()
    return str(one["id"])


def test_it_is_in_the_review_with_its_commands(wakeful, unknown):
    said = wakeful("review").out
    assert said.startswith("delivery ")
    assert "to channel post: it may have arrived: TimeoutError: no answer from the post office" in said
    for verb in ("confirm", "replay", "discard"):
        assert f"wakeful deliveries {verb} {unknown}" in said


def test_why_says_what_to_find_out(wakeful, unknown):
    said = wakeful("why", unknown).out
    assert "It is unknown whether it arrived, after 1 try" in " ".join(said.split())
    assert f"wakeful deliveries confirm {unknown}" in " ".join(said.split())


def test_it_is_confirmed(wakeful, unknown):
    plan = wakeful("deliveries", "confirm", unknown, "--plan").out
    assert plan == f"would confirm delivery {unknown} to channel post\n"
    said = wakeful(
        "deliveries", "confirm", unknown, "--url", "https://example.com/L-9", "--as", "ada", "--note", "saw it"
    )
    assert said.out == f"delivery {unknown} to channel post: delivered, was unknown\n"
    shown = wakeful("deliveries", "show", unknown, "--json").json
    assert (shown["state"], shown["reason"]) == ("delivered", "confirmed by ada: saw it")
    assert shown["evidence"] == {"id": None, "url": "https://example.com/L-9"}
    assert "is delivered: only an unknown delivery" in wakeful("deliveries", "confirm", unknown, code=1).err
    assert wakeful("alarms", "--json").json["alarms"] == [] or all(
        one["state"] == "resolved" for one in wakeful("alarms", "--json").json["alarms"]
    )


def test_it_is_sent_again(wakeful, unknown):
    said = wakeful("deliveries", "replay", unknown).out
    assert said == f"delivery {unknown} to channel post: pending again, was unknown\n"
    wakeful("once", "app.py")
    shown = wakeful("deliveries", "show", unknown, "--json").json
    assert (shown["state"], shown["thread"], shown["urgent"]) == ("delivered", "kim", False)
    assert shown["evidence"] == {"id": "L-7", "url": "https://example.com/L-7"}
    assert "The other side calls it L-7. It is at https://example.com/L-7." in " ".join(
        wakeful("why", unknown).out.split()
    )
