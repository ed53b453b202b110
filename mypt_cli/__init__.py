"""What the commands share, and `mypt`, which runs each of them.

Imports no engine and no torch by itself.
"""
