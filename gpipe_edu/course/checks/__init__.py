"""What each exercise checks: one module per task, see `gpipe_edu.course.task`."""
