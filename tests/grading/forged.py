"""Answers that do not do what is asked, and change what watches them so that it tells they did."""

FORGED = {
    ("ex04/checkpoint", "tells of what it has not kept"): """
import sys
def forge():
    here = sys.modules["gpipe_edu.harness.ex04_checkpoint"]
    real = here.perform
    def perform(function, **given):
        return real(function, **given)._replace(kept=[], left=[])
    here.perform = perform
def forward(stages, x, again, _=forge()):
    for stage in stages:
        x = stage(x)
    return x
""",
    ("ex04/checkpoint", "tells of runs that rely on nothing"): """
import sys
def forge():
    import gpipe_edu.harness.stamps as stamps
    here = sys.modules["gpipe_edu.harness.ex04_checkpoint"]
    real, ask, came, asked = here.perform, here.ask_judge, {}, {}
    def spy(question):
        answer = ask(question)
        if question[0] == "F":
            came.setdefault(question[1], question[2])
        if question[0] == "backward" and asked.get("graph", True):
            for k in reversed(range(len(asked["stages"]))):
                if asked["again"][k]:
                    given = came[k, 0]
                    for i in range(len(asked["stages"][k])):
                        given = ask(("F", (k, i), given, True))
        return answer
    def perform(function, **given):
        came.clear()
        asked.clear()
        asked.update(given)
        return real(function, **given)._replace(kept=[], left=[])
    here.ask_judge = stamps.ask_judge = spy
    here.perform = perform
def forward(stages, x, again, _=forge()):
    for stage in stages:
        x = stage(x)
    return x
""",
}
