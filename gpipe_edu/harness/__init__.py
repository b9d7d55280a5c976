"""What calls a learner's function, in the learner's process: plain data in, plain data out. It knows no right answer.

One module for each exercise, which is all of an exercise that is loaded where its answers run; the judge's part, in
`exercises`, is not there and cannot be read there. So an answer finds neither what is expected nor how it is judged.
A module holds

    perform(function, ...)  calls the function with plain data; what is asked and what comes back are a NamedTuple each,
                            where they have many fields
    HIDDEN                  optional: what of this package would give the answer away -> how it is refused
    unpack                  optional: `Forwarded`, if perform hands the function on to other processes
"""
