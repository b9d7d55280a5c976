"""`python -m gpipe_edu`: the command line."""

import sys

try:
    from gpipe_edu.cli import main
except ModuleNotFoundError as error:
    # Most often the wrong Python: the course is installed in .venv, and `python` alone is another one.
    sys.exit(
        f"error: this Python ({sys.executable}) has no {error.name}; use the course's own, .venv/bin/python, or "
        f"install the requirements: python -m pip install -r requirements.txt"
    )

main()
