"""Strategies for legal records, one module a dialect."""
