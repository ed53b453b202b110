"""What the linter says about one line or text."""
