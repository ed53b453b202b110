"""A corpus of seeded faults, one kind at a time, and of clean records in many shapes."""
