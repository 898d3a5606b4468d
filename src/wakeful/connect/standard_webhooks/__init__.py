"""Standard Webhooks: the verifier."""
