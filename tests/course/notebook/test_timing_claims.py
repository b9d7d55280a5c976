"""A claim about the reader's machine is told as it came out, and never stops a notebook."""

from gpipe_edu.course import on_your_machine


def test_a_claim_that_held_is_told_and_one_that_did_not_asks_for_another_run(capsys):
    on_your_machine("Device 3 works least.", True)
    assert capsys.readouterr().out == "On your machine, too: Device 3 works least.\n"
    on_your_machine("Device 3 works least.", False)
    said = capsys.readouterr().out
    assert said.startswith("Not this time: Device 3 works least.")
    assert "Run the cell again" in said
