"""What makes a package a course: the environment check; exercises and their checks come here."""
