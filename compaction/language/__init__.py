"""Texts in any language: sentences, standing wishes, outcomes, acceptances and refusals; pure."""
