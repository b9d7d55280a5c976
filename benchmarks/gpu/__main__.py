"""`python -m benchmarks.gpu`: exits with 0 if all that was asked holds, 1 if something does not, 2 without a GPU."""

import sys

from benchmarks.gpu.run import HERE, run

sys.exit(run(HERE))
