"""To add an exercise one touches its folder, its master and its bank, and nothing else: CONTRIBUTING says how."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PARTS = (
    "gpipe_edu",
    "solutions",
    "tests/solutions",
    "tests/oracle.py",
    "tests/recipes.py",
    "tests/__init__.py",
    "tests/conftest.py",
)

FOLDER = {
    "__init__.py": '"""Exercise 11: the way back."""\n',
    "said.toml": """
function = "way_back"
title = "Stages in the order of the backward"
notebook = "exercise_11_way_back"
hints = ["Count down.", "`range(K)` counts up; `reversed` turns it round.", "`list(reversed(range(K)))`."]
success = "For {K} stages, too."

[slips]
forward = "This is the order of the forward. Gradients come from the loss."

[predictions.first]
question = "Which stage goes back first?"
options = ["The first.", "The last."]
answer = "B"
wrong.A = "It has no gradient yet."
because = "It has the loss."
""",
    "check.py": '''
"""The stages, last one first."""

from gpipe_edu.exercises.case import Sign
from gpipe_edu.exercises.forms import gather


def perform(way_back, K):
    return gather(way_back(K))


def examine(exam, rng):
    K = rng.randint(2, 9)
    case = exam.case(f"way_back(K={K})", expected=str(list(range(K))[::-1]))
    found = case.ask(K=K)
    case.came = str(found)
    case.judge(signs(found, K))
    return exam.success(K=K)


def signs(found, K):
    yield Sign("forward", found == list(range(K)))
    yield Sign("error", found != list(range(K))[::-1])
''',
}

MASTER = """
# %% [markdown]
# # Exercise 11: the way back

# %%
from gpipe_edu.course import check, hint, predict


# %% nbgrader={"grade_id": "ex11-way-back-answer", "solution": true}
def way_back(K: int) -> list[int]:
    ### BEGIN SOLUTION
    return list(reversed(range(K)))
    ### END SOLUTION


# %%
check("ex11/way-back", way_back)
"""

BANK = '''
"""Exercise 11."""

from tests.solutions.bank import Bank

BANK = Bank("ex11/way-back")


@BANK.wrong("forward")
def counts_up(K):
    return list(range(K))


@BANK.right
def counts_down(K):
    yield from range(K - 1, -1, -1)
'''


def test_a_throw_away_exercise_is_found_checked_built_listed_and_in_the_bank(tmp_path):
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        (tmp_path / part).parent.mkdir(exist_ok=True)
        copy(ROOT / part, tmp_path / part)
    folder = tmp_path / "gpipe_edu/exercises/ex11_way_back"
    folder.mkdir()
    for name, text in FOLDER.items():
        (folder / name).write_text(text)
    master = tmp_path / "solutions/exercise_11_way_back.py"
    master.write_text(MASTER.lstrip())
    (tmp_path / "tests/solutions/bank/ex11_way_back.py").write_text(BANK)

    def run(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "GPIPE_EDU_HOME": str(tmp_path / "home")}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "exercise_11_way_back.ipynb: written" in run("-m", "gpipe_edu", "build")
    assert "NotImplementedError" in (tmp_path / "exercises/exercise_11_way_back.ipynb").read_text()
    assert "ex11/way-back: passed" in run(str(master))
    listed = run("-m", "gpipe_edu", "progress")
    assert any(line.startswith("x  ex11/way-back") for line in listed.splitlines()), listed
    verdicts = run(
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/solutions/test_bank.py",
        "-k",
        "ex11 and gets_its_verdict",
    )
    assert "2 passed" in verdicts
    question = "from gpipe_edu.course import predict; predict('ex11/first', 'B')"
    assert "It has the loss" in run("-c", question)
