"""Shopify: its webhook verifier and models."""
