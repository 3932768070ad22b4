"""Objectives in a running gateway: calls are judged, levels decided, new conversations moved."""
