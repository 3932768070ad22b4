"""Google's own API, ``generateContent``, behind OpenAI's and Anthropic's."""
