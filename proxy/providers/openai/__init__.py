"""Speaks the chat completions API of OpenAI and of those who follow it; pure."""
