"""Alertmanager: its webhook verifier and models."""
