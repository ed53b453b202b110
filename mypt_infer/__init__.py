"""Generating and running conversations, on the engine of mypt_spec."""
