"""Boards for Grafana, generated as JSON."""
