"""What is kept: teams, keys, receipts and their rollups, in SQL."""
