"""Searches for fixes that a finding alone does not show."""
