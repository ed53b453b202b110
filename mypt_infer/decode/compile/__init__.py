"""From a grammar and declared tools to tables."""
