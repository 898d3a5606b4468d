"""Jira: its webhook verifier and models."""
