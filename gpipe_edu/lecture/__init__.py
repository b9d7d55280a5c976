"""A lecture: one file of slides, made from a lesson by a short plan, that needs no network and no kernel."""
