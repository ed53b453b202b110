"""Prepared data: from JSONL to shards and back. No torch."""
