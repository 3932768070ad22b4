"""Receipts in the database: inserted once each, read by call, summed for what calls need."""
