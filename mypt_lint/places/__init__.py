"""Maps JSON Pointers to columns of a line, and patches to edits of it."""
