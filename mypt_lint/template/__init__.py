"""Lints chat templates: what they lose, and what they write in another way than it is trained."""
