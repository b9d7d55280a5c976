"""How `one_f_one_b` is called."""

from __future__ import annotations

from . import schedules
from .schedules import perform as perform

HIDDEN = schedules.hide_recipes("one_f_one_b")
