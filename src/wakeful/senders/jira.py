"""Models of what Jira sends, where users find them."""

from wakeful.connect.jira.models import *  # noqa: F403
