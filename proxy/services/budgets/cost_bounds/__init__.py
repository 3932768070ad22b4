"""Predictions, prices and bounds of what a call may cost."""
