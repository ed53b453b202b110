"""Reads calls of tools whose schemas no table can hold, with llguidance."""
