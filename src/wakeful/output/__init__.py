"""What leaves: checks before, the outbox, and the channels by which messages go."""
