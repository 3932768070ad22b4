"""Facts: one line for each thing that later turns need from earlier ones, with its turns."""
