"""The wheel carries the course: what a learner copies or asks for lies in `gpipe_edu/carried/`, beside the code.

Solutions are carried, since `solution(...)` shows them after a pass, and are public anyway. The banks of wrong answers
are not: only tests need them.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

CARRIED = ("notebooks", "exercises", "solutions", "docs", "lectures")
UNWANTED = shutil.ignore_patterns(".*", "__pycache__", "*.html", "*.json")
"""What editors leave, and what lessons write where they are run."""


class BuildWithCourse(build_py):
    """In a clone or an unpacked sdist; an editable installation finds the folders where they are."""

    def run(self):
        """As usual, and then the course."""
        super().run()
        if self.editable_mode:
            return
        to = Path(self.build_lib, "gpipe_edu", "carried")
        shutil.rmtree(to, ignore_errors=True)
        for folder in CARRIED:
            shutil.copytree(Path(__file__).with_name(folder), to / folder, ignore=UNWANTED)


setup(cmdclass={"build_py": BuildWithCourse})
