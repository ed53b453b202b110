"""Runs models under the decoder. Needs torch."""
