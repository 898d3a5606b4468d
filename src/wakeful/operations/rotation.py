"""Everything that is stored, encrypted with the first key."""

from __future__ import annotations

from dataclasses import dataclass

from wakeful.errors import ConfigError
from wakeful.operations.pace import Pace, Progress, nobody_looks
from wakeful.stores.keeping import Keeper
from wakeful.stores.payloads import Codec

MOST_PASSES = 3


@dataclass
class Rotated:
    """How many payloads were encrypted anew, which keys are needed no longer, and whether it is complete."""

    payloads: int
    left: list[str]
    complete: bool


async def rotate(keeper: Keeper, codec: Codec, *, pace: Pace, progress: Progress = nobody_looks) -> Rotated:
    """Pass over all payloads until nothing is left that is not under the first key: other processes may write with an older
    one in the meantime. Stopped or killed, the same goes on where it was: what is done is passed over.
    """
    ring = codec.ring
    if ring is None:
        message = "no key is given: `wakeful keys new` prints one for WAKEFUL_ENCRYPTION_KEYS, the newest one first"
        raise ConfigError(message)
    changed = 0
    for _ in range(MOST_PASSES):
        passed, before, extent = 0, changed, await keeper.extent()
        async for rows, payloads in keeper.reseal(codec, ring):
            passed, changed = passed + rows, changed + payloads
            progress(min(passed, extent), extent)
            if not await pace.turn(changed):
                return Rotated(changed, [], complete=False)
        if changed == before:
            old = [identifier for identifier in await keeper.ciphers() if identifier != ring.first.id]
            await keeper.leave_ciphers(old)
            return Rotated(changed, old, complete=True)
    return Rotated(changed, [], complete=False)
