"""The durable store. Each verb is one atomic transition; the journal commits them in groups."""
