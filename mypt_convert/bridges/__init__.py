"""Canonical records <-> steps, one file a dialect, for conversion.

The only code beside adapters that knows a dialect's JSON.
"""
