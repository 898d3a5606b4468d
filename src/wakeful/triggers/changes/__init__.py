"""Changes of rows in databases, as events."""
