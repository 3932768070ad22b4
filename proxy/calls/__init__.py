"""The life of one call, from its admission to its receipt."""
