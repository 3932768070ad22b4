"""Resources that read the ledger: costs, savings, caches, latency, calls."""
