"""Tools that ship with the product and take no part in a call."""
