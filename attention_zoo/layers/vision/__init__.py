"""Layers of images."""
