"""Small pages beside the calls: health, models, receipts, admin."""
