"""Verification that is not specific to one service: signatures, credentials, public keys."""
