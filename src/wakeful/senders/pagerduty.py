"""Models of what PagerDuty sends, under their public import path."""

from wakeful.connect.pagerduty.models import *  # noqa: F403
