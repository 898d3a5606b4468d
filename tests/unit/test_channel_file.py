"""file(): whole lines, on disk, whatever happened to the file before."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
from pathlib import Path

import pytest

from support.messages import message
from wakeful.channels import file
from wakeful.errors import ConfigError, Transient
from wakeful.failures import classify


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


async def test_one_line_per_message_in_order(tmp_path):
    path = tmp_path / "out.jsonl"
    channel = file(path)
    await channel.deliver([message("a", {"text": "two\nlines"}, subject="order 7"), message("b", None)])
    await channel.deliver([message("c", [1, 2])])
    assert lines(path)[0] == {
        "id": "a",
        "channel": "ops",
        "subject": "order 7",
        "body": {"text": "two\nlines"},
        "app": "billing",
        "agent": "remind",
        "run": "abc123",
        "committed_at": "2026-01-01T00:00:00.123456Z",
    }
    assert [line["id"] for line in lines(path)] == ["a", "b", "c"]
    assert path.read_bytes().endswith(b"\n")


async def test_a_batch_is_one_write_and_one_sync(tmp_path, monkeypatch):
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"{}\n")
    calls: list[str] = []
    monkeypatch.setattr(os, "write", noting(calls, os.write))
    monkeypatch.setattr(os, "fsync", noting(calls, os.fsync))
    await file(path).deliver([message(str(n)) for n in range(50)])
    assert calls == ["write", "fsync"]
    assert len(lines(path)) == 51


def noting(calls: list[str], real):
    def call(*arguments):
        calls.append(real.__name__)
        return real(*arguments)

    return call


@pytest.mark.parametrize("left", [b'{"id": "whole"}\n{"id": "ha', b'{"id": "no line break"}'])
async def test_after_half_a_line_a_new_one_begins(tmp_path, left):
    path = tmp_path / "out.jsonl"
    path.write_bytes(left)
    await file(path).deliver([message("a")])
    await file(path).deliver([message("b")])
    after = path.read_bytes().removeprefix(left)
    assert after.startswith(b"\n")
    assert [json.loads(line)["id"] for line in after.splitlines()[1:]] == ["a", "b"]


async def test_a_disk_that_is_full_in_the_middle_loses_nothing(tmp_path, monkeypatch):
    path = tmp_path / "out.jsonl"
    await file(path).deliver([message("a")])
    real = os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", write_half_then_fail(real))
        with pytest.raises(Transient, match=r"out\.jsonl: No space left on device"):
            await file(path).deliver([message("b")])
    await file(path).deliver([message("b")])
    first, half, second = path.read_bytes().splitlines()
    assert json.loads(first)["id"] == "a"
    with pytest.raises(ValueError):
        json.loads(half)
    assert json.loads(second)["id"] == "b"


def write_half_then_fail(real):
    calls = []

    def write(descriptor, rest):
        calls.append(rest)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real(descriptor, bytes(rest)[: len(rest) // 2])

    return write


async def test_a_file_that_is_moved_away_is_begun_anew(tmp_path):
    path = tmp_path / "out.jsonl"
    channel = file(path)
    await channel.deliver([message("a")])
    path.rename(tmp_path / "out.1")
    await channel.deliver([message("b")])
    assert [line["id"] for line in lines(path)] == ["b"]
    assert [line["id"] for line in lines(tmp_path / "out.1")] == ["a"]


async def test_somebody_who_holds_the_file_is_waited_for(tmp_path):
    path = tmp_path / "out.jsonl"
    with path.open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(b'{"id": "thei')
        held.flush()
        delivery = asyncio.ensure_future(file(path).deliver([message("ours")]))
        await asyncio.sleep(0)
        held.write(b'rs"}\n')
        held.flush()
        assert not delivery.done()
        fcntl.flock(held, fcntl.LOCK_UN)
        await delivery
    assert [line["id"] for line in lines(path)] == ["theirs", "ours"]


async def test_many_at_once_do_not_mix(tmp_path):
    path = tmp_path / "out.jsonl"
    channels = [file(path) for _ in range(4)]
    await asyncio.gather(
        *(
            channel.deliver([message(f"{one}-{batch}-{n}", "x" * 5000) for n in range(5)])
            for one, channel in enumerate(channels)
            for batch in range(5)
        )
    )
    assert len({line["id"] for line in lines(path)}) == 100


async def test_what_is_wrong_with_the_file_can_be_put_right(tmp_path):
    path = tmp_path / "later" / "out.jsonl"
    channel = file(path)
    with pytest.raises(Transient) as caught:
        await channel.deliver([message("a")])
    assert str(caught.value) == f"file {path}: the folder {path.parent} does not exist: create it"
    assert classify(caught.value).failure == "transient"
    path.parent.mkdir()
    await channel.deliver([message("a")])
    assert [line["id"] for line in lines(path)] == ["a"]


async def test_what_is_no_file_says_so(tmp_path):
    with pytest.raises(Transient, match="this is a folder"):
        await file(tmp_path).deliver([message()])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(Transient, match="not a regular file"):
        await file(pipe).deliver([message()])


async def test_a_file_that_may_not_be_written_says_so(tmp_path, monkeypatch):
    def refuse(*_):  # as the system would, were this not run by a user who may do everything
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(Transient, match="not writable for the user of this process") as caught:
        await file(tmp_path / "out.jsonl").deliver([message()])
    assert classify(caught.value).failure == "transient"


def test_what_it_says_of_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/somewhere")
    assert file("~/out.jsonl").describe() == {"kind": "file", "path": "/somewhere/out.jsonl"}
    assert repr(file("out.jsonl")) == 'file("out.jsonl")'
    for wrong in ("", None, 7):
        with pytest.raises(ConfigError, match="name a file"):
            file(wrong)  # type: ignore[arg-type]
