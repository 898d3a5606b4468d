"""One folder for each outside service: its verifier, models of what it sends, its trigger."""
