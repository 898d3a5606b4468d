from __future__ import annotations

import asyncio
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import apsw

from support.stores import query
from wakeful.shell.opening import is_store
from wakeful.stores.migrations import migrations, newest

ALL = ", ".join(migration.label for migration in migrations("sqlite"))


def test_migrate_sqlite(wakeful, folder):
    assert wakeful("migrate", "--plan").out == f"sqlite:///wakeful.db: to apply: {ALL}\n"
    assert not (folder / "wakeful.db").exists()
    assert wakeful("migrate", "--as", "ada").out == f"sqlite:///wakeful.db: applied {ALL}\n"
    assert wakeful("migrate").out == "sqlite:///wakeful.db is already up to date\n"
    assert wakeful("migrate", "--plan").out == "sqlite:///wakeful.db is already up to date\n"
    assert wakeful("migrate", "--json").json == {"store": "sqlite:///wakeful.db", "applied": []}
    connection = apsw.Connection("wakeful.db")
    assert list(connection.execute("select operator, verb, detail from wakeful_operation")) == [("ada", "migrate", ALL)]
    connection.close()


def test_migrate_the_store_an_app_names(wakeful, folder):
    (folder / "app.py").write_text("from wakeful import App\napp = App('a', store='sqlite:///own.db')\n")
    assert wakeful("migrate", "app.py").out == f"sqlite:///own.db: applied {ALL}\n"


def test_migrate_refuses_what_is_no_database(wakeful, folder):
    (folder / "wakeful.db").write_text("not a database at all " * 100)
    assert "is not a SQLite database" in wakeful("migrate", code=1).err


def test_a_schema_that_is_ahead(wakeful, folder):
    wakeful("migrate")
    connection = apsw.Connection("wakeful.db")
    connection.execute("insert into wakeful_migration values (9999, 'future', 0)")
    connection.close()
    for words in (["migrate"], ["migrate", "--plan"], ["runs"], ["doctor"]):
        result = wakeful(*words, code=1)
        assert "the schema is ahead" in result.err + result.out


def test_migrate_postgresql(wakeful, folder, postgres_dsn):
    store = ("--store", postgres_dsn)
    assert "to apply: 0001_engine" in wakeful("migrate", "--plan", *store).out
    assert "to apply: 0001_engine" in wakeful("migrate", "--plan", *store).out
    applied = wakeful("migrate", *store).out
    assert "applied 0001_engine" in applied
    assert "postgres:…@" in applied
    assert "already up to date" in wakeful("migrate", *store).out


def verdicts(result):
    return {one["what"]: one["verdict"] for one in result.json["findings"]}


def test_doctor_finds_nothing_wrong(wakeful, tickets, start):
    tickets.chmod(0o700)
    wakeful("migrate")
    start("worker", "app.py").wait_for("working for")
    found = verdicts(wakeful("doctor", "app.py", "--json"))
    assert set(found.values()) == {"good"}
    assert {
        "wakeful",
        "sqlite",
        "app",
        "file",
        "disk",
        "store",
        "schema",
        "clock",
        "outbox",
        "runs",
        "dead letters",
        "alarms",
        "workers",
    } == set(found)


def test_doctor_finds_that_nobody_works(wakeful, tickets):
    wakeful("migrate")
    shown = wakeful("doctor", "app.py", code=1).out
    assert f"✓ schema        up to date ({newest():04})" in shown
    assert "✗ workers       none alive" in shown
    assert "→ start one with `wakeful serve APP`" in shown


def test_doctor_says_that_each_start_compiles_anew(tickets, start, tmp_path):
    places = {"PYTHONPYCACHEPREFIX": str(tmp_path / "no bytecode"), "COLUMNS": "300"}
    may_not = start("doctor", env={**places, "PYTHONDONTWRITEBYTECODE": "1"})
    may_not.end()
    assert "compiles Wakeful again at each start" in may_not.output
    may = start("doctor", env={**places, "PYTHONDONTWRITEBYTECODE": ""})
    may.end()
    assert "compiled anew" not in may.output


def test_doctor_before_anything_is_there(wakeful, folder):
    found = verdicts(wakeful("doctor", "--json"))
    assert found["file"] == "look"
    assert not (folder / "wakeful.db").exists()


def test_doctor_points_at_people_s_work(wakeful, tickets):
    wakeful("run", "app.py", "mend", "--wait", code=1)
    found = verdicts(wakeful("doctor", "--json", code=1))
    assert found["dead letters"] == "look"
    assert found["alarms"] == "broken"


def test_open_alarms_alone_are_wrong(wakeful, tickets, start):
    wakeful("run", "app.py", "mend", "--wait", code=1)
    start("worker", "app.py").wait_for("working for")
    found = wakeful("doctor", "--json", code=1).json["findings"]
    assert [one["what"] for one in found if one["verdict"] == "broken"] == ["alarms"]
    for alarm in wakeful("alarms", "--json").json["alarms"]:
        wakeful("alarms", "resolve", alarm["key"])
    wakeful("doctor")


def test_doctor_sees_workers(wakeful, tickets, start):
    worker = start("worker", "app.py")
    worker.wait_for("working for")
    assert verdicts(wakeful("doctor", "--json"))["workers"] == "good"


def test_doctor_of_a_broken_app_and_a_broken_store(wakeful, folder):
    (folder / "app.py").write_text("1 / 0\n")
    (folder / "wakeful.db").write_text("no database " * 100)
    found = verdicts(wakeful("doctor", "app.py", "--json", code=1))
    assert found["app"] == found["file"] == "broken"


def test_doctor_sees_permissions(wakeful, folder, monkeypatch):
    wakeful("migrate")
    monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may run as root, who may do everything
    found = verdicts(wakeful("doctor", "--json", code=1))
    assert found["file"] == found["folder"] == "broken"


def test_doctor_on_postgresql(wakeful, folder, postgres_dsn):
    store = ("--store", postgres_dsn)
    assert verdicts(wakeful("doctor", "--json", *store, code=1))["schema"] == "broken"
    wakeful("migrate", *store)
    found = verdicts(wakeful("doctor", "--json", *store, code=1))
    assert found["durability"] == "broken"  # the test's server has fsync off
    assert found["postgresql"] == found["clock"] == found["store"] == "good"
    findings = wakeful("doctor", "--json", *store, code=1).json["findings"]
    (version,) = [one for one in findings if one["what"] == "postgresql"]
    shown = asyncio.run(query(postgres_dsn, "show server_version"))
    assert version["text"] == shown[0][0].split()[0]


def test_doctor_of_a_database_that_is_down(wakeful, folder):
    found = verdicts(wakeful("doctor", "--json", "--store", "postgresql://postgres@127.0.0.1:9/x", code=1))
    assert found["store"] == "broken"


def test_a_database_that_is_down_is_one_line(wakeful, folder):
    said = wakeful("runs", "--store", "postgresql://postgres@127.0.0.1:9/x", code=1).err
    assert said.startswith("wakeful: PostgreSQL is unavailable")
    assert said.count("\n") == 1


def test_bench_outside_a_checkout(wakeful, folder, monkeypatch):
    monkeypatch.setattr("wakeful.cli.bench.__file__", str(folder / "a" / "b" / "c" / "d.py"))
    assert "run it in a checkout of Wakeful" in wakeful("bench", code=1).err


def test_bench_gets_its_options(wakeful, folder, monkeypatch):
    (folder / "bench").mkdir()
    (folder / "src" / "wakeful").mkdir(parents=True)
    (folder / "bench" / "main.py").touch()
    got = []

    def main(words):
        got.append(words)
        return 0

    monkeypatch.setitem(sys.modules, "bench", SimpleNamespace())
    monkeypatch.setitem(
        sys.modules, "bench.main", SimpleNamespace(main=main, NAMES=("a", "b", "outgoing"), COUNTED=("run",))
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    wakeful("bench", "--smoke", "--json", "--only", "a", "--only", "b", "--seconds", "2s")
    assert got == [["--smoke", "--json", "--only", "a", "--only", "b", "--seconds", "2"]]
    assert 'no measurement "outgonig". Did you mean "outgoing"?' in wakeful("bench", "--only", "outgonig", code=2).err
    assert "bench --write goes with --count" in wakeful("bench", "--write", code=2).err
    assert len(got) == 1
    wakeful("bench", "--count", "--write", "--detail", "--only", "run")
    assert got[1:] == [["--count", "--write", "--detail", "--only", "run"]]


def test_demo_gets_its_options(wakeful, monkeypatch):
    got = []

    def main(seconds, *, keep):
        got.append((seconds, keep))
        return 0

    monkeypatch.setattr("wakeful.demo.main", main)
    wakeful("demo", "--seconds", "20")
    wakeful("demo", "--keep")
    assert got == [(20.0, False), (None, True)]


def test_a_store_that_another_process_has_for_itself_is_waited_for(tmp_path, monkeypatch):
    """The last one that leaves a file tidies it up, and nobody can look at it meanwhile."""
    path = tmp_path / "wakeful.db"
    leaving = apsw.Connection(str(path))
    for statement in (
        "pragma journal_mode = wal",
        "create table wakeful_migration (number integer)",
        "pragma locking_mode = exclusive",
        "insert into wakeful_migration values (1)",
    ):
        list(leaving.execute(statement))
    waits = threading.Event()

    class Patient(apsw.Connection):
        def set_busy_timeout(self, milliseconds: int) -> None:
            super().set_busy_timeout(milliseconds)
            waits.set()

    monkeypatch.setattr(apsw, "Connection", Patient)
    with ThreadPoolExecutor(1) as thread:
        looking = thread.submit(is_store, path)
        waits.wait(60)
        leaving.close()
        assert looking.result(60)
