"""GitHub: how its webhooks are verified, and models of what they bring."""
