"""How `f_then_b` is called."""

from __future__ import annotations

from . import schedules
from .schedules import perform as perform

HIDDEN = schedules.hide_recipes("f_then_b")
