"""Offers what this package does to other tools, by the interfaces that these have for plugins."""
