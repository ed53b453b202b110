"""Turns canonical records into steps and back, one file a dialect, for conversion.

Apart from the adapters, this is the only code that knows a dialect's JSON.
"""
