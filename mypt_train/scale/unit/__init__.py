"""Writes what a unit holds: its file, and the report that says that it is whole."""
