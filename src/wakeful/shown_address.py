"""An address for people and logs, with possible secrets replaced by `…`. It need not be a valid URL: a misspelled one
works too.
"""

from __future__ import annotations

import re

HIDDEN = "…"
# Options of libpq and similar drivers, and common names for tokens. `passfile` and `sslkey` say where a secret is kept.
_NAMES = (
    r"(?:ssl)?pass(?:word|wd|phrase|file)?|pwd|sslkey|[\w.-]*(?:token|secret|signature|credential|api[_-]?key|access[_-]?key)[\w.-]*|"
    r"key|sig|auth|authorization|code|jwt"
)
# A password may contain "/", "?" and "@" although it must not: the last "@" ends it.
_USER = re.compile(r"(?<!http)(?<!https)(://[^:@/?#\s]*:)\S*@", re.IGNORECASE)
# On the web a port with a path after it is not a password, and a user without a password is a token.
_WEB_USER = re.compile(r"(https?://)(?:([^:@/?#\s]*:)(?!\d{1,5}(?:[/?#]|$))\S*|[^/?#\s]+)@", re.IGNORECASE)
_QUERY = re.compile(rf"([?&;#](?:{_NAMES})=)[^&;#\s]*", re.IGNORECASE)


def shown_address(url: str) -> str:
    """The address without passwords and tokens, both before the host and in the query."""
    hidden = _WEB_USER.sub(rf"\1\2{HIDDEN}@", _USER.sub(rf"\1{HIDDEN}@", url))
    return _QUERY.sub(rf"\1{HIDDEN}", hidden)
