"""Finds repeated episodes among all units, without a machine that holds all their digests."""
