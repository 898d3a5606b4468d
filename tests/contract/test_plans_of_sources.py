"""What is asked of sources, of other names of events and of quarantine is found by an index, however small the tables were when
the plan was made.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from contract.test_plans import LOOKED_AT, MANY, connection, quoted, scans
from wakeful.stores.queries import load_queries

__all__ = ["connection"]

pytestmark = pytest.mark.postgres

ASKED: dict[str, tuple[object, ...]] = {
    "find_source": ("app", "source-7"),
    "lock_source": ("app", "source-8"),
    "is_alive": (None, "process-8"),
    "hold_source": (None, "app", "source-9", "process"),
    "let_source_go": (None, "app", "source-9", "process", 1),
    "move_source": (None, "app", "source-10", "7", 1, 1, 1, 0, 0),
    "report_source": (None, "app", "source-10", "reading", *(None,) * 4, 1, 0, 0, None),
    "held_sources": (None, "lone"),
    "items_of_source": ("app", "tape", "item-0", 20),
    "save_item": (None, "{app}", "{tape}", "{item-1}", "{2}", "{m}", "{0}"),
    "forget_items": ("app", "tape", 20, 10),
    "insert_alias": (None, "{alias-1}", "{app}", "{key-12}"),
    "find_alias": ("{alias-13}",),
    "move_alias": ("alias-14", "key-15"),
    "forget_aliases": ("app", 20, 10),
    "insert_quarantine": ("key-16", "app", "source-16", "unreadable", 1, None, "raw", 1),
    "find_quarantined": ("key-17", "key-17\x01"),
    "end_quarantine": (None, "app", "key-18", "discarded", None, None, "ada", None),
    "kept_of_source": ("app", "source-19", None, 0, 10),
    "released_from": ("key-20",),
    "forget_headers": ("{21}",),
    "remove_quarantine": (22,),
    "oldest_unverified": ("app", 10),
    "event_is_stored": ("key-22",),
    "cut_event": (1_000_001,),
    "cut_quarantine": (1_000_002,),
    "cut_lately": (None, "app", 1),
    "forget_payload": ("{23}",),
    "remove_event": (24, 1_000_000),
    "backlog_of": (None, "app", '["agent"]', 20),
    "sources_to_judge": (None, "lone"),
}
FILL = [
    """insert into wakeful_source (app, name, kind, state, holder, token, since)
    select case n when 7 then 'lone' else 'app' end, 'source-' || n, 'tape', 'idle', 'process-' || n, 1, n
    from generate_series($1::bigint, $2::bigint) n
    union all select 'app', 'source-7', 'tape', 'idle', null, 0, 7 where $1 = 1""",
    """insert into wakeful_process (id, host, pid, app, state, started_at, lease_until)
    select 'process-' || n, 'host', 1, 'app', 'stopped', n, 0 from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_source_item (app, source, item, version, mark, gone, changed_at)
    select 'app', 'tape', 'item-' || n, 1, 'm', n % 2, n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_alias (key, app, event_key, made_at)
    select 'alias-' || n, 'app', 'key-' || n, n from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_event (key, app, source, id, type, subject, state, content, envelope, accepted_at)
    select 'key-' || n, 'app', '/s', 'event-' || n, 't', null, 'quarantined', '', '', n
    from generate_series($1::bigint, $2::bigint) n""",
    """insert into wakeful_quarantine (event_seq, app, source, kind, size, state, became)
    select seq, 'app', 'source-' || id, case when seq % 4 < 2 then 'unreadable' else 'unverified' end, 1,
      case when seq % 2 = 0 then 'kept' else 'released' end, key
    from wakeful_event where seq between $1::bigint and $2::bigint""",
    """insert into wakeful_run (id, root, app, agent, event_seq, state, token, due_at, created_at)
    select 'run-' || n, 'run-' || n, 'app', 'agent', n, 'ready', 0, n, n from generate_series($1::bigint, $2::bigint) n""",
]


@pytest.mark.parametrize("analysed", [False, True], ids=["unknown", "known to be small"])
@pytest.mark.parametrize("few", [1, 300])
async def test_find_their_rows_by_key(connection: Any, few: int, analysed: bool):
    queries = load_queries("postgres")
    for insert in FILL:
        await connection.execute(insert, 1, few)
    if analysed:
        await connection.execute("analyze")
    for name, given in ASKED.items():
        await connection.execute(f"prepare {name} as {queries[name].sql}")
        await connection.execute(f"execute {name}({', '.join(map(quoted, given))})")
    for insert in FILL:
        await connection.execute(insert, few + 1, MANY)
    wide: dict[str, list[str]] = {}
    for name, given in ASKED.items():
        (row,) = await connection.fetch(
            f"explain (analyze, format json) execute {name}({', '.join(map(quoted, given))})"
        )
        (plan,) = json.loads(row[0])
        if found := [f"{place}: {rows}" for place, rows in scans(plan["Plan"]) if rows > LOOKED_AT]:
            wide[name] = found
    assert wide == {}
