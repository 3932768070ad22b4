"""Limits on sockets, bodies and parsing, before a request is read."""
