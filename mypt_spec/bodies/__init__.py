"""What stands inside blocks: JSON read strictly, schemas, TypeScript namespaces."""
