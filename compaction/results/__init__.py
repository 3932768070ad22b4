"""Tool results: lossless compression, their records, and the values they hold."""
