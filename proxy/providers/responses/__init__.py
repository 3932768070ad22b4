"""Translates between the Responses API and chat completions; pure."""
