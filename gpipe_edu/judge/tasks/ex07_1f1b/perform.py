"""How `one_f_one_b` is called."""

from __future__ import annotations

from gpipe_edu.judge.guest import schedules
from gpipe_edu.judge.guest.schedules import perform as perform

HIDDEN = schedules.hide_recipes("one_f_one_b")
