"""Answers without a large model: answers kept, small models, proof of their quality; pure."""
