"""Building notebooks: exercises from their masters, a learner's copy of the course, terms that tell what they mean."""
