"""Reads TOML of an operator: values that know their line, and every problem with its fix."""
