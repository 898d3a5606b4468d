"""An option that a trigger does not have, and a part that is not installed: each is one line that helps."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from wakeful import ConfigError, bucket, debezium, files, on, outbox, postgres_changes, sqlite_changes

NAMES = ("App", "Run", "bucket", "debezium", "files", "on", "outbox", "postgres_changes", "sqlite_changes", "webhook")


@pytest.mark.parametrize(
    ("make", "wrong", "meant"),
    [
        (lambda **given: on("ticket.*", **given), "were", "where"),
        (lambda **given: files("inbox/*.md", **given), "setle", "settle"),
        (lambda **given: bucket("s3://box", **given), "evry", "every"),
        (lambda **given: postgres_changes("postgresql://h/d", **given), "tabel", "table"),
        (lambda **given: sqlite_changes("shop.db", **given), "tabel", "table"),
        (lambda **given: outbox("shop.db", **given), "tabel", "table"),
        (lambda **given: debezium("/hooks/rows", **given), "verfy", "verify"),
    ],
)
def test_a_mistyped_option_names_the_one_that_was_meant(make: Any, wrong: str, meant: str):
    with pytest.raises(ConfigError, match=rf'unknown option "{wrong}"\. Did you mean "{meant}"\?$'):
        make(**{wrong: "x"})


@pytest.mark.parametrize(
    "made", [lambda: bucket("s3://box"), lambda: bucket("s3://box", queue="sqs://eu-west-1/news"), lambda: debezium("sqs://eu-west-1/rows")]
)  # fmt: skip
async def test_without_the_parts_for_amazon_it_says_what_to_install(made: Any, monkeypatch: Any):
    for name in [one for one in sys.modules if one.partition(".")[0] in {"aiobotocore", "botocore"}]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "aiobotocore", None)
    monkeypatch.setitem(sys.modules, "botocore", None)
    (problem,) = await made().problems()
    assert problem.endswith('support for Amazon\'s services is not installed: pip install "wakeful[s3]"')


def test_nothing_that_only_some_triggers_need_is_loaded_with_the_package():
    heavy = "psycopg", "aiobotocore", "botocore", "watchfiles", "asyncpg"
    script = f"import sys, wakeful; from wakeful import {', '.join(NAMES)}; print([one for one in {heavy!r} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
