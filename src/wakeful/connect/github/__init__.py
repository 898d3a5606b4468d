"""GitHub: its webhook verifier and models."""
