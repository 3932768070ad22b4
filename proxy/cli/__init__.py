"""Commands that ask the store, printed where the command line says."""
