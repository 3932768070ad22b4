"""Translates chat completions to Anthropic's Messages API and back; pure."""
