"""Eager predictions in the fast tier."""

from tests.eager import eager_in_fast_tier

__all__ = ["eager_in_fast_tier"]
