"""What any room may need: words and numbers said plainly, files written whole, where a learner's answers are kept."""
