"""The package version, in a module that packaging reads without importing Keras."""

__version__ = "0.1.0"
