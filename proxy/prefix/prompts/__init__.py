"""A chat body in its pieces, and back: what planning reads and writes."""
