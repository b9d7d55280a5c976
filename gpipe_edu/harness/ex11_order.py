"""How `zb_h1` is called."""

from __future__ import annotations

from . import schedules
from .schedules import perform as perform

HIDDEN = schedules.hide_recipes("zb_h1")
