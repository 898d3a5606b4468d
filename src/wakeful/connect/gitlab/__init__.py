"""GitLab: its webhook verifier and models."""
