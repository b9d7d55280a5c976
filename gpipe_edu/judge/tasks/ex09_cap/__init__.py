"""Exercise 09: beat a makespan under a memory cap."""
