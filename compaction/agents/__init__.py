"""Commands and files of coding agents, read from calls and their results; pure."""
