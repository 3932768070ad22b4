"""Reads a policies file: tables in, values out, every problem with its line and its fix."""
