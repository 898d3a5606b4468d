"""Models of what Shopify sends, where users find them."""

from wakeful.connect.shopify.models import *  # noqa: F403
