"""A part that has something to say and ends."""


def run(found, sizes):
    found.figure("card", "NVIDIA X100 80GB")
    found.check("weather", "fine", True)
