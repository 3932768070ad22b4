"""Figures of the ledger for whoever sets the gateway up: keys of upstreams, trials of policies."""
