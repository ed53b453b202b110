"""Holds `mypt-prepare` and its options."""
