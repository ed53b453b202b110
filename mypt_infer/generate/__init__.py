"""Models that run under the decoder. Needs torch."""
