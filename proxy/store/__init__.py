"""Stores teams, keys, receipts and their rollups, in SQL."""
