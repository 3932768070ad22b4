"""Tool results: said shorter without loss, their records, and the values they hold."""
