"""A folder that strangers can write to, read by a real `wakeful serve`."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import httpx2
import pytest

from wakeful.testing.waiting import until

TERABYTE = 1 << 40
APP = """
from pathlib import Path
from wakeful import App, Run, files

app = App("desk")


@app.agent(files("inbox/*.md", settle="0s"{options}))
async def note(run: Run) -> str:
    print("told of", run.event.data["name"], flush=True)
    return Path(run.event.data["path"]).read_text()[:10]
"""


@pytest.fixture
def serve(folder: Path, start: Any):
    (folder / "inbox").mkdir()

    def call(options: str = "") -> tuple[Any, str]:
        (folder / "app.py").write_text(APP.replace("{options}", options))
        server = start("serve", "app.py", "--port", "0")
        return server, server.wait_for(r"serving desk on (http://127\.0\.0\.1:\d+)")[1]

    return call


def huge(path: Path, size: int = TERABYTE) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def quarantined(url: str, count: int) -> dict[str, str]:
    """Why which file is in quarantine, once there are so many."""

    def ask() -> list[dict[str, Any]]:
        found = httpx2.get(f"{url}/v1/quarantine", trust_env=False, timeout=30).json()["quarantine"]
        return list(found) if len(found) >= count else []

    found = asyncio.run(until(ask))
    return {os.path.basename(one["reason"].partition(" ")[0]): one["reason"].partition(" ")[2] for one in found}  # noqa: PTH119


def test_an_inbox_link_to_another_file_is_not_read(folder, serve):
    (folder / "shadow").write_text("root:$6$")
    (folder / "inbox" / "early.md").symlink_to(folder / "shadow")
    os.mkfifo(folder / "inbox" / "pipe.md")
    server, url = serve()
    (folder / "inbox" / "late.md").symlink_to(folder / "shadow")
    (folder / "inbox" / "a.md").write_text("a note")
    server.wait_for("told of a.md")
    found = quarantined(url, 2)
    assert set(found) == {"early.md", "late.md"}
    assert all(
        reason.startswith("is a link, or is behind one, and links are not followed") for reason in found.values()
    )
    runs = httpx2.get(f"{url}/v1/runs", trust_env=False, timeout=30).json()["runs"]
    assert [one["event"]["id"] for one in runs] == ["a.md@1"]
    assert "told of early.md" not in server.output


def test_links_are_followed_where_the_code_says_so(folder, serve):
    (folder / "shadow").write_text("a shared note")
    (folder / "inbox" / "link.md").symlink_to(folder / "shadow")
    server, _ = serve(", follow_links=True")
    server.wait_for("told of link.md")


def test_a_file_that_is_too_large_is_quarantined_by_its_name(folder, serve):
    huge(folder / "inbox" / "large.md", 50_000_001)
    server, url = serve()
    (folder / "inbox" / "a.md").write_text("a note")
    server.wait_for("told of a.md")
    assert quarantined(url, 1) == {
        "large.md": "is larger than max_size (50 MB) and is not read. Raise max_size, or remove it. It is told by itself then"
    }


def test_a_small_file_does_not_wait_for_a_huge_one(folder, serve):
    huge(folder / "inbox" / "huge.md")
    server, url = serve(", max_size=None")
    (folder / "inbox" / "a.md").write_text("a note")
    server.wait_for("told of a.md")  # nobody has read a terabyte by then
    (folder / "inbox" / "b.md").write_text("another")
    server.wait_for("told of b.md")
    assert "told of huge.md" not in server.output
    (source,) = httpx2.get(f"{url}/v1/sources", trust_env=False, timeout=30).json()["sources"]
    assert source["state"] == "reading"
    server.signal(signal.SIGTERM)
    assert server.end() == 0  # and it is not waited for
