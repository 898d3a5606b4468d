"""Signatures of Standard Webhooks with a key pair (`v1a`, Ed25519): only the sender can sign; the public key is no secret."""

from __future__ import annotations

import base64
import binascii

from wakeful.errors import ConfigError

PREFIX = "whpk_"
LENGTH = 32


def read_public_key(text: str, *, needed_by: str) -> bytes:
    """The 32 bytes after `whpk_`. Raises ConfigError for anything else, or if the package cryptography is missing."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != LENGTH:
        message = f"{needed_by}: the text after {PREFIX} is not a public key ({LENGTH} bytes in base64): copy it again completely"
        raise ConfigError(message)
    try:
        import cryptography  # noqa: F401
    except ImportError:
        message = f"{needed_by}: a public key needs the package cryptography: pip install 'wakeful[encryption]'"
        raise ConfigError(message) from None
    return key


def fits(key: bytes, signature: bytes, content: bytes) -> bool:
    """Whether the content was signed with the matching private key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True
