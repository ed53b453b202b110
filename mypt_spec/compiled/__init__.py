"""Holds what takes long to make of the grammars and tables of the package, by their SHA-256."""
