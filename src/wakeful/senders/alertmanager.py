"""Models of what Alertmanager sends, under their public import path."""

from wakeful.connect.alertmanager.models import *  # noqa: F403
