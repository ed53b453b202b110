"""Checks one line or text, and finds the place of each finding."""
