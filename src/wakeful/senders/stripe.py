"""Models of what Stripe sends, where users find them."""

from wakeful.connect.stripe.models import *  # noqa: F403
