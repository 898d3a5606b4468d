"""PostgreSQL as a source: changed rows, by logical replication or by triggers."""
