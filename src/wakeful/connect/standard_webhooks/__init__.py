"""Standard Webhooks: how such webhooks are verified."""
