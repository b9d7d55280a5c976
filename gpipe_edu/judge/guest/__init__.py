"""What is in the process where a learner's function runs: it calls the function, and knows no right answer.

`main.py` hears questions and answers them in plain data; what several tasks need to call a function stands beside it.
Of the rest of the judge, only the `perform*.py` of the tasks are there: nothing else is loaded or can be read
there, so an answer finds neither what is expected nor how it is judged.
"""
