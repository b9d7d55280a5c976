"""Measurements, run from the project's folder as `python -m benchmarks.NAME`."""
