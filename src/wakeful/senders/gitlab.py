"""Models of what GitLab sends, under their public import path."""

from wakeful.connect.gitlab.models import *  # noqa: F403
