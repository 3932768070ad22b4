"""Which text and which tool goes where: declared, learned, and put in order."""
