"""Objectives, their burn rates, fallback ladders and the alert rules made from them."""
