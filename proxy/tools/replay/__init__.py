"""What recorded calls would have cost: sent unmodified, planned, and at best."""
