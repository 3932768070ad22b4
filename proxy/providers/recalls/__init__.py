"""Calls of the gateway's recall tool in answers of each API: taken out, answered, and sent back."""
