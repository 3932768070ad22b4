"""Views of the ledger as functions of readers, which run in the process that reads for pages."""
