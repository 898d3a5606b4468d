"""What people do to stored things: settle, replay, release, discard, set. The command line and the HTTP API share this."""
