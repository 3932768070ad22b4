"""How callers and providers speak: framing, translations, usage, errors; pure."""
