"""Wire formats of callers and providers: framing, translations, usage, errors; pure.

A translation raises ``CallerError`` for a call that is wrong, or that cannot be said without
changing its meaning; a reader raises ``UpstreamError`` for an answer that cannot be read on.
Docstrings name only what else is raised.
"""
