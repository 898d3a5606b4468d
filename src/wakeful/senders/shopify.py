"""Models of what Shopify sends, under their public import path."""

from wakeful.connect.shopify.models import *  # noqa: F403
