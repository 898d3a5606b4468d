"""The HTTP API: accepts events, and shows everything that is stored."""
