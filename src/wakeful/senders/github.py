"""Models of what GitHub sends, under their public import path."""

from wakeful.connect.github.models import *  # noqa: F403
