"""doctor tells of a store that is a copy of another one."""

from __future__ import annotations

import asyncio
import shutil

import apsw
import pytest

from support.backups import BackUp


def origin(result):
    return [(one["verdict"], one["text"], one["remedy"]) for one in result.json["findings"] if one["what"] == "origin"]


def doctor(wakeful, url):
    return origin(wakeful("doctor", "--json", "--store", url, code=None))


def test_a_file_that_was_copied(wakeful, folder):
    wakeful("migrate")
    here, copy = "sqlite:///wakeful.db", "sqlite:///copy.db"
    assert doctor(wakeful, here) == []
    shutil.copy("wakeful.db", "copy.db")
    ((verdict, text, remedy),) = doctor(wakeful, copy)
    assert verdict == "look"
    assert text == f"a copy of the file {folder / 'wakeful.db'}; no process has opened it for writing here yet"
    assert "the original still exists: stop the processes of one copy" in remedy
    wakeful("migrate", "--store", copy)
    ((_, text, _),) = doctor(wakeful, copy)
    assert "it has been here since" in text
    (folder / "wakeful.db").unlink()
    ((_, _, remedy),) = doctor(wakeful, copy)
    assert remedy.startswith("make sure that no process uses the original")
    connection = apsw.Connection("copy.db")
    connection.execute("update wakeful_origin set began_at = began_at - 8 * 86400000000")
    connection.close()
    assert doctor(wakeful, copy) == []


def test_a_file_that_was_moved_is_the_same(wakeful, folder):
    wakeful("migrate")
    shutil.move("wakeful.db", "moved.db")
    assert doctor(wakeful, "sqlite:///moved.db") == []
    wakeful("migrate", "--store", "sqlite:///moved.db")
    assert doctor(wakeful, "sqlite:///moved.db") == []


@pytest.mark.postgres
def test_a_dump_that_was_restored_into_another_cluster(wakeful, folder, postgres_url, back_up: BackUp):
    wakeful("migrate", "--store", postgres_url)
    assert doctor(wakeful, postgres_url) == []

    async def restore() -> str:
        return await (await back_up(postgres_url))()

    restored = asyncio.run(restore())
    ((verdict, text, _),) = doctor(wakeful, restored)
    assert verdict == "look"
    assert text.startswith("a copy of another PostgreSQL cluster (system identifier ")
    assert text.endswith("no process has opened it for writing here yet")
    wakeful("migrate", "--store", restored)
    ((_, text, _),) = doctor(wakeful, restored)
    assert "it has been here since" in text
