"""A policies file, read: tables in, values out, every mistake with its line and its mend."""
