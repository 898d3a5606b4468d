"""PostgreSQL as a source: rows that change, by logical replication or by triggers."""
