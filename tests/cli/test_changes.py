"""`wakeful changes`: the SQL of change tables, which makes and removes exactly what the app would."""

from __future__ import annotations

import sqlite3

APP = """
from wakeful import App, Run, sqlite_changes

app = App("desk")


@app.agent(sqlite_changes("shop.db", table="orders"))
async def note(run: Run) -> None: ...
"""


def test_what_is_printed_can_be_run(wakeful, folder):
    (folder / "app.py").write_text(APP)
    assert "there is no file" in wakeful("changes", "app.py", code=1).err
    shop = sqlite3.connect(folder / "shop.db", isolation_level=None)
    shop.execute("create table orders (id integer primary key)")
    before = shop.execute("select name, sql from sqlite_master order by name").fetchall()
    (found,) = wakeful("changes", "app.py", "--json").json["databases"]
    assert (found["database"], found["error"]) == ("shop.db", None)
    shop.executescript(wakeful("changes", "app.py").out)
    assert wakeful("changes", "app.py").out == "-- shop.db: nothing to do\n"
    shop.execute("insert into orders values (7)")
    assert shop.execute("select app, table_name, key from wakeful_change").fetchall() == [("desk", "orders", "7")]
    shop.executescript(wakeful("changes", "app.py", "--remove").out)
    after = shop.execute("select name, sql from sqlite_master where name <> 'sqlite_sequence' order by name").fetchall()
    shop.close()
    assert after == before


def test_an_app_without_change_tables(wakeful, tickets):
    assert "nothing to create or remove" in wakeful("changes", "app.py").err
