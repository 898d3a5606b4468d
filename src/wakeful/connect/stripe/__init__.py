"""Stripe: its webhook verifier and models."""
