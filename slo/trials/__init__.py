"""Trials: policies applied to calls that have ended, to see their effect before they hold."""
