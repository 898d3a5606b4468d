"""Models of what PagerDuty sends, where users find them."""

from wakeful.connect.pagerduty.models import *  # noqa: F403
