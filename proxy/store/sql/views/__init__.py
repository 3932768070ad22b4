"""Reads the ledger's figures for the admin pages, one module for each view."""
