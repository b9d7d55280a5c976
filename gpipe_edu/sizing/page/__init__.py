"""The planner in a notebook: a picture of a plan, and sliders over it."""
