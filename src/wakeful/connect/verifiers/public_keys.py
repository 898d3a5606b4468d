"""Signatures of Standard Webhooks with a pair of keys (`v1a`, Ed25519): only the sender can sign, and what stands here is no secret."""

from __future__ import annotations

import base64
import binascii

from wakeful.errors import ConfigError

PREFIX = "whpk_"
LENGTH = 32


def read_public_key(text: str, *, needed_by: str) -> bytes:
    """The 32 bytes after `whpk_`. ConfigError for anything else, and without the package that can use them."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != LENGTH:
        message = (
            f"{needed_by}: what follows {PREFIX} is not a public key, {LENGTH} bytes in base64: copy it again, whole"
        )
        raise ConfigError(message)
    try:
        import cryptography  # noqa: F401
    except ImportError:
        message = f"{needed_by}: a public key needs the package cryptography: pip install 'wakeful[encryption]'"
        raise ConfigError(message) from None
    return key


def fits(key: bytes, signature: bytes, content: bytes) -> bool:
    """Was this signed by who has the other half of the key?"""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True
