"""Writing an item's bytes to a file: `show ID --raw FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

from wakeful.errors import NotFound
from wakeful.private_files import write_file
from wakeful.resources.declare import Resource
from wakeful.resources.words import number
from wakeful.shell.arguments import UsageError
from wakeful.shell.terminal import say
from wakeful.surface.acting import Missing, find, missing_words
from wakeful.surface.offers import Offer
from wakeful.surface.performing import Asked, desk_for


async def write_raw(resource: Resource, offer: Offer, asked: Asked) -> int:
    """Write the bytes to the given file; - is standard output."""
    place, which = asked.arguments.raw, asked.of(offer.which)
    if resource.show is None or resource.show.raw is None:
        raise AssertionError(offer)
    async with desk_for(None, asked) as desk:
        desk.remark = say
        try:
            content = await resource.show.raw(desk, await find(resource, desk, asked.key or "", which))
        except Missing:
            raise NotFound(await missing_words(resource, desk, asked.key or "", which)) from None
    if place == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return 0
    try:
        write_file(Path(place), content)
    except OSError as error:
        message = f"--raw {place}: {error.strerror}"
        raise UsageError(message) from None
    say(f"{number(len(content), 'byte')} written to {place}")
    return 0
