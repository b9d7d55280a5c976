"""Predictions: questions whose answer shows only after a commit, and the TOML files that hold them, a file a lesson."""
