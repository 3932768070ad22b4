"""Wire formats of callers and providers: framing, translations, usage, errors; pure."""
