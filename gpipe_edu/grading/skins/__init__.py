"""Our judge inside of other people's graders: nbgrader and Gradescope."""
