"""Findings that no record shows by itself."""
