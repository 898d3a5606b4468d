"""Models of what GitLab sends, where users find them."""

from wakeful.connect.gitlab.models import *  # noqa: F403
