"""How `early` is called."""

from __future__ import annotations

from . import schedules
from .schedules import perform as perform

HIDDEN = schedules.hide_recipes("early")
