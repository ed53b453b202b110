"""Encodes only what is free in a clean record: the constant tokens of its skeleton are known."""
