"""Until exercise 04 imports it from `gpipe_edu.pytorch.study`."""

from .ledger import Ledger

__all__ = ["Ledger"]
