"""Models of what GitHub sends, where users find them."""

from wakeful.connect.github.models import *  # noqa: F403
