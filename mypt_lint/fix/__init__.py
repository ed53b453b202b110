"""Fixes records and files, and proves each fix before it is made."""
