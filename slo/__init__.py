"""Promises to teams: usage, prices, cost; pure."""
