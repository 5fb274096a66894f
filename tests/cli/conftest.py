"""Predictions run eagerly in the fast tier, of a run that is trained once."""

from tests.eager import eager_in_fast_tier, shared_run

__all__ = ["eager_in_fast_tier", "shared_run"]
