"""Text classification models."""
