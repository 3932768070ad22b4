"""Commands that report spend, savings and receipts."""
