"""HTTP handlers, a few lines each."""
