"""Holds what all parts of the decoder share: tools, schemas, vocabulary, allow sets."""
