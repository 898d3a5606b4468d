"""What all sources of changed rows have in common: a change, its cause, outboxes, and the SQL to install."""
