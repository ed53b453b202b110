"""Prepares data in units, so that a killed run goes on with the same bytes."""
