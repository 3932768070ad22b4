"""The form of chat completions, in which calls and answers of all APIs meet; pure."""
