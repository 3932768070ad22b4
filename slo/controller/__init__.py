"""The controller: when new conversations move down a ladder of levels, and back; pure."""
