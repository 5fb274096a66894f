"""The version, alone in a file so that the packaging reads it without importing Keras."""

__version__ = "0.1.0"
