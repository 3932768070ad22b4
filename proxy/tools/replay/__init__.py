"""What recorded calls would have cost: sent as they came, planned, and at best."""
