"""How `early` is called."""

from __future__ import annotations

from gpipe_edu.judge.guest import schedules
from gpipe_edu.judge.guest.schedules import perform as perform

HIDDEN = schedules.hide_recipes("early")
