"""Reads a policies file: tables in, values out, every mistake with its line and its fix."""
