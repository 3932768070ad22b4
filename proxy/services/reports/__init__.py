"""Scheduled cost reports: built from the ledger, sent by mail and webhook when a period ends."""
