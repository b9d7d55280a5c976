"""Lectures: one file of slides, made from a lesson by a short plan, that needs no network and no kernel.

`outline.py` reads `lectures/NN.toml`, which names votes, charts and cells of a lesson; `slides.py` writes the file.
Every live chart is the self-contained page of `view/gantt/page.py` in a frame of its own, made when its slide is
opened; a slide is 1280 by 720 and scaled, so it fits on any screen.
"""
