"""Strings that are almost tags."""
