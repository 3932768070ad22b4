"""Rollups: sums of receipts by quarter, hour and day, and the queries that read them."""
