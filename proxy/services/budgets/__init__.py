"""Budgets at work: what calls hold of them before they are sent, and settle with after."""
