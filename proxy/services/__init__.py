"""Services of a call that keep state, each around a pure core."""
