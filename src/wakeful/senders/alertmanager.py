"""Models of what Alertmanager sends, where users find them."""

from wakeful.connect.alertmanager.models import *  # noqa: F403
