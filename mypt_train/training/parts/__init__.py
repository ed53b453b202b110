"""Holds what training adds to a model: attention within episodes, losses, adapters."""
