"""The local journal that receipts are written to before the database has them."""
