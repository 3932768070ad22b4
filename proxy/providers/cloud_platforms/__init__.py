"""Claude on other clouds: Anthropic's API as Amazon Bedrock and Google's Vertex AI wrap it."""
