"""Chats on the terminal, over a workspace."""
