"""Slack: its webhook verifier and models."""
