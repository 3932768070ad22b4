"""Receipts, teams, keys and settings in SQLite or PostgreSQL."""
