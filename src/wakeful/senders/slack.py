"""Models of what Slack sends, under their public import path."""

from wakeful.connect.slack.models import *  # noqa: F403
