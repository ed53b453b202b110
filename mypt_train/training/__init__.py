"""The trainer and its parts. Needs torch."""
