"""Computes the cost of recorded calls: sent unmodified, planned, and at best."""
