"""Reports as people read them: headline figures, sentences, the dearest rows."""
