"""What SQLite or PostgreSQL keeps: receipts, teams, keys, settings."""
