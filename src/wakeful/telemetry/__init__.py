"""Hears everything: logs today."""
