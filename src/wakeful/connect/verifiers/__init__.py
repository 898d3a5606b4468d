"""Ways to prove who sent a webhook that are no service's own: signatures, credentials, public keys."""
