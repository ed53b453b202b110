"""Runs templates that come with a model or a format."""
