"""Models of each provider's prompt cache; pure."""
