"""Tokens of the HTTP side that tests use: as long as real ones, since shorter ones are refused."""

from __future__ import annotations

TOKEN = "tPq4W9zK2mXv7RcY1nLb8GdH5sJf3aQe"
NEXT_TOKEN = "Zk3uV8rN6yTb1MwE9xPd4LhS7gCj2oAf"
WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}"}
