"""Models of what Stripe sends, under their public import path."""

from wakeful.connect.stripe.models import *  # noqa: F403
