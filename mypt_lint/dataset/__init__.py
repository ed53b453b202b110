"""Finds what no record shows by itself: duplicates, overlap, and the like."""
