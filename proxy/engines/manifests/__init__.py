"""Manifests that run a profile's replicas on a cluster."""
