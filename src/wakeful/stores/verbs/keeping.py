"""Housekeeping: what is over and old goes, and what is encrypted with an old key is encrypted anew."""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.stores.base import EnterCipher, Transaction


def enter_ciphers(now: int | None, requests: Sequence[EnterCipher]) -> Transaction[list[None]]:
    yield "insert_cipher", [(now, identifier) for identifier in sorted({request.id for request in requests})]
    return [None] * len(requests)
