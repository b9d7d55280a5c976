"""No test opens a window."""

import os

os.environ.setdefault("MPLBACKEND", "agg")
