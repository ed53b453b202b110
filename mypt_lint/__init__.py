"""Checks chat training data by the grammar and rules of its format, and repairs it."""
