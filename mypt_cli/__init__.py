"""Shares what the commands have in common, and runs each of them as `mypt NAME`.

Imports no engine and no torch by itself.
"""
