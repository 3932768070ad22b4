"""Commands for self-hosted engines."""
