"""Key rotation: encrypt all stored payloads with the first key and bind each to its place. `strict`: accept nothing else from
then on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from wakeful.errors import ConfigError
from wakeful.operations.pace import Pace, Progress, unseen
from wakeful.stores.keeping import Keeper
from wakeful.stores.keyring import KeyRing
from wakeful.stores.payloads import Codec
from wakeful.stores.request import Actor, Bulk
from wakeful.stores.sealing import BINDS_SINCE, BOUND, Sealing, strict_mark
from wakeful.stores.tampered import Tampering
from wakeful.stores.transaction import Row

MOST_PASSES = 3


@dataclass
class Rotated:
    """The number of re-encrypted payloads, the keys that are no longer needed, and whether the rotation is complete. `waits_for`: why
    the store did not become strict; `tampered`: payloads left unchanged because they were tampered with.
    """

    payloads: int
    left: list[str]
    complete: bool
    strict: bool = False
    waits_for: str | None = None
    tampered: list[Tampering] = field(default_factory=list)


async def rotate(
    keeper: Keeper, codec: Codec, by: Actor, *, pace: Pace, progress: Progress = unseen, strict: bool = False
) -> Rotated:
    """Re-encrypt all payloads. 1. Bind: from now on all processes bind payloads to their place; refused while a process of an older
    version runs. 2. Go through all payloads until none is left to change: other processes may still write unbound payloads
    meanwhile. 3. Drop the old keys. 4. If `strict`, mark the store as strict once every process binds what it writes.

    Tampered payloads are left unchanged and raise alarms. After a stop or a kill, the same command continues: finished payloads are
    skipped.
    """
    ring = codec.ring
    if ring is None:
        message = "no key is given: `wakeful keys new` prints one for WAKEFUL_ENCRYPTION_KEYS, newest first"
        raise ConfigError(message)
    bulk = Bulk("keys rotate", tells="payloads re-encrypted")
    await _bind(keeper, codec, ring, by, bulk)
    changed = 0
    alarmed: set[str] = set()
    for _ in range(MOST_PASSES):
        passed, before, extent = 0, changed, await keeper.extent()
        tampered: list[Tampering] = []
        waits_for = await _unbound(keeper) if strict else None
        async for piece in keeper.reseal(codec, alarmed, by=by, bulk=bulk):
            passed, changed = passed + piece.rows, changed + piece.payloads
            tampered += piece.tampered
            progress(min(passed, extent), extent)
            if not await pace.turn(changed):
                return Rotated(changed, [], complete=False, tampered=tampered)
        if changed == before:
            if tampered:
                return Rotated(changed, [], complete=False, tampered=tampered)
            if waits_for is not None:
                return Rotated(changed, [], complete=False, waits_for=waits_for)
            return await _conclude(keeper, codec, ring, changed, by, bulk, strict=strict)
    return Rotated(changed, [], complete=False)


async def _bind(keeper: Keeper, codec: Codec, ring: KeyRing, by: Actor, bulk: Bulk) -> None:
    """Raise ConfigError while a process runs that cannot read bound payloads."""
    sealing = Sealing.of(await keeper.ciphers())
    older = await keeper.older_processes(BINDS_SINCE)
    if older and not sealing.bound:
        message = (
            f"{_processes(older)}: an older version, which cannot read payloads bound to their place. "
            "Finish the deploy first, then rotate"
        )
        raise ConfigError(message)
    mark = f"{ring.first.id}{BOUND}"
    if mark not in sealing.ids:
        await keeper.change_ciphers([mark], [], by=by, bulk=bulk)
    codec.binds = True


async def _unbound(keeper: Keeper) -> str | None:
    """The processes that do not bind payloads yet. Read before a pass, so that the pass sees everything they wrote."""
    found = await keeper.unbound_processes()
    return None if not found else f"{_processes(found)} does not bind payloads yet: run this again in a moment"


async def _conclude(
    keeper: Keeper, codec: Codec, ring: KeyRing, changed: int, by: Actor, bulk: Bulk, *, strict: bool
) -> Rotated:
    sealing = Sealing.of(await keeper.ciphers())
    strict = strict or bool(sealing.strict)
    current = f"@sealed:{ring.first.id}."
    enters = [strict_mark(ring)] if strict and not any(current in mark for mark in sealing.strict) else []
    old = sorted(sealing.keys - {ring.first.id})
    gone = [one for one in sealing.ids if one.removesuffix(BOUND) in old]
    gone += [mark for mark in sealing.strict if current not in mark]
    told = (f"; {', '.join(old)} left" if old else "") + ("; strict" if strict else "")
    await keeper.change_ciphers(enters, gone, by=by, bulk=replace(bulk, tells=f"{bulk.tells}{told}"))
    codec.strict = codec.strict or strict
    return Rotated(changed, old, complete=True, strict=strict)


def _processes(rows: Sequence[Row]) -> str:
    shown = ", ".join(f"process {row[0]} ({row[1]}, pid {row[2]})" for row in rows[:3])
    return shown + (f" and {len(rows) - 3} more" if len(rows) > 3 else "")
