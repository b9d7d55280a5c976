"""`python -m gpipe_edu`: the command line."""

from .cli import main

main()
