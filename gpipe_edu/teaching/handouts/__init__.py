"""What a teacher hands out: personal puzzles, quizzes, and the course without its solutions (the kit)."""
