"""Creates and checks the folder of a custom format."""
