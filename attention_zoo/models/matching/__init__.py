"""Models of text pairs."""
