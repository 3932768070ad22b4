"""Sums of receipts by quarter, hour and day, and how they are asked for."""
