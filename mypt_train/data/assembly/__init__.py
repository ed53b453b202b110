"""Puts encoded units together: what goes where, the shards, the manifest."""
