"""Receipts as metrics and log lines."""
