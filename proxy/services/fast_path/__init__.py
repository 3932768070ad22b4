"""The fast path's state: cached answers, small models, stored texts."""
