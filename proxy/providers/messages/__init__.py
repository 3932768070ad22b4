"""Anthropic's Messages API in front of models whose upstream speaks chat completions."""
