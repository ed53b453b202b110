"""Writes what a unit holds: its object, and the report that says that it is whole."""
