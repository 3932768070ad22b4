"""Ceilings and objectives that people set on pages, beside those of the policies file."""
