"""What a teacher hands out: personal puzzles, quizzes, and the kit of an exercise."""
