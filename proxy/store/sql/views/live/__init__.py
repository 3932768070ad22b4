"""Questions about the last minutes."""
