"""Derives a custom format from the chat template of a model: probes it, learns it, proves it."""
