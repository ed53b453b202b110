"""Reads and writes the content of blocks: strict JSON, JSON Schemas, TypeScript namespaces."""
