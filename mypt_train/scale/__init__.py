"""Prepares data on many machines: an immutable plan, units that anyone may make, one commit."""

# Bytes of input in a unit, and in a group of units, if nobody says another number.
UNIT, GROUP = 256 << 20, 4 << 30
