"""Where PyTorch is missing, as in a browser, what a lesson has in NumPy and on paper still runs.

So what needs PyTorch is imported apart, behind the rest.
"""

import ast
import json

from tests.processes import printed

from .test_standard import LESSONS, NUMPY_ONLY, cells

FIRST_IMPORTS = """
import json, sys
sys.modules["torch"] = None
found = {}
for lesson, source in json.load(sys.stdin).items():
    names = {}
    try:
        exec(source, names)
    except ImportError as error:
        found[lesson] = str(error)
    else:
        found[lesson] = list(names)
print(json.dumps(found))
"""


def first_imports(path):
    """The first cell of a lesson that imports something."""
    imports = (ast.Import, ast.ImportFrom)
    code = (cell.source for cell in cells(path, "code"))
    return next(source for source in code if any(isinstance(line, imports) for line in ast.parse(source).body))


def test_the_first_imports_of_a_lesson_need_no_pytorch_and_bring_its_predictions():
    sources = {path.stem: first_imports(path) for path in LESSONS}
    found = json.loads(printed(FIRST_IMPORTS, given=json.dumps(sources)).splitlines()[-1])
    assert {lesson: error for lesson, error in found.items() if isinstance(error, str)} == {}
    for lesson, names in found.items():
        if lesson[:2] not in NUMPY_ONLY:
            assert {"ge", "predict", "progress"} <= set(names), lesson
