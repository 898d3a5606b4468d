"""One folder for each outside service: how its requests are verified, models of what it sends, its trigger."""
