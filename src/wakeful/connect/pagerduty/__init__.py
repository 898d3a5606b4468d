"""PagerDuty: its webhook verifier and models."""
