"""Holds one module for each format of findings."""
