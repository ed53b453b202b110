"""Makes plans: pinned inputs, cut into pieces and units."""

# Bytes of input in a unit, and in a group of units, if nobody says another number.
UNIT, GROUP = 256 << 20, 4 << 30
