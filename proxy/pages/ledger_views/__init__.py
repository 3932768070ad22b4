"""Views of the ledger and of features; they run in the process that reads for pages."""
