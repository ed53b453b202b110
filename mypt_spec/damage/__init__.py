"""Recognises strings that are almost tags: misspelt, cut short, or torn in two."""
