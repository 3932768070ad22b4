"""Values that many rooms share: the call, its request fields, its receipt; pure."""
