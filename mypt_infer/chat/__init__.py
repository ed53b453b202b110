"""A chat on the terminal, over a workspace."""
