"""Reads what the user wants: files of settings, selections of rules, a baseline."""
