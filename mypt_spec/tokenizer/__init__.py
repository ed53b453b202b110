"""Turns text into ids and back, with GPT-2's vocabulary or another."""
