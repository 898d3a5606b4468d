"""Models of what Slack sends, where users find them."""

from wakeful.connect.slack.models import *  # noqa: F403
