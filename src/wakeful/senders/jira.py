"""Models of what Jira sends, under their public import path."""

from wakeful.connect.jira.models import *  # noqa: F403
