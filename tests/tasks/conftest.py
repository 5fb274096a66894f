"""Eager predictions in the fast tier, and a shared training run."""

from tests.eager import eager_in_fast_tier, shared_run

__all__ = ["eager_in_fast_tier", "shared_run"]
