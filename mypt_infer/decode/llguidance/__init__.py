"""The engine for tools whose schemas no table holds."""
