"""Number of tokens a text is, exactly where a vocabulary is published, learned where none is."""
