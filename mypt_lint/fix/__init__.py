"""Fixes of records and files, each proved before it is made."""
