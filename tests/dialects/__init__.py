"""Legal records, one module a dialect: `record` makes one of random choices."""
