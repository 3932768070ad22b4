"""Cost reports over a narrow port."""
