"""How each provider's prompt cache behaves, as values; pure."""
