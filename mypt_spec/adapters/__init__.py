"""Turns records into messages and back: the only code that knows a dialect's JSON."""
