"""Receipts in the database: put there once each, read by call, summed for what calls need."""
