"""Figures of the ledger that admin pages show: each is read and made into its view in one place."""
