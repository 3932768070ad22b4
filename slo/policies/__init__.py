"""A file of promises, read: tables in, values out, every mistake with its line and its mend."""
