"""Makes plans: pinned inputs, cut into pieces and units."""
