"""A command that says whether there is anything to do.

exit code 0, no output      nothing to do
exit code 0, some output    the output says what there is to do
another exit code           it failed: unknown
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from wakeful.clock import Microseconds, readable, seconds
from wakeful.errors import Persistent, StepTimeout
from wakeful.stored_errors import storable

SHELL = "/bin/sh"
LONGEST_ANSWER = 64 * 1024
SHOWN_OF_ERRORS = 500


async def ask_command(
    command: str, *, folder: Path, environment: Mapping[str, str], limit: Microseconds, quiet: bool = False
) -> str:
    """The output of a command line in exactly this environment. The command and everything it started is killed when
    its time is over or the run is cancelled. With `quiet` an error repeats neither the command nor its output, because
    errors are logged.
    """
    process = await asyncio.create_subprocess_exec(
        SHELL,
        "-c",
        command,
        cwd=folder,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,  # its own process group, which can be killed as a whole
    )
    ended = False
    try:
        async with asyncio.timeout(seconds(limit)):
            said, complained = await asyncio.gather(_first(process.stdout), _first(process.stderr))
            code = await process.wait()
            ended = True
    except TimeoutError:
        message = f"the command took longer than {readable(limit)}" + ("" if quiet else f": {command}")
        raise StepTimeout(message) from None
    finally:
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if code != 0:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
        words = (complained or said).strip()[-SHOWN_OF_ERRORS:]
        message = f"the command {how}" + ("" if quiet else f": {command}" + (f": {words}" if words else ""))
        raise Persistent(message)
    return said.strip()


async def _first(stream: asyncio.StreamReader | None) -> str:
    """The first part of a stream. The rest is read too: a command whose output is not read never ends."""
    if stream is None:
        return ""
    kept = bytearray()
    more = False
    while chunk := await stream.read(LONGEST_ANSWER):
        room = LONGEST_ANSWER - len(kept)
        kept += chunk[:room]
        more = more or len(chunk) > room
    return storable(kept.decode("utf-8", "replace")) + ("…" if more else "")
