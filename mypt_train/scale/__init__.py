"""Prepares data on many machines: an immutable plan, units that anyone may make, one commit."""
