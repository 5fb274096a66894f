"""Checkpoints of a run, and conversion of public checkpoints to safetensors."""
