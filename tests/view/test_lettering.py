"""Text is wrapped and left out by estimate."""

from gpipe_edu.view.lettering import fill, label_font, text_width, wrap


def test_pieces_share_lines_without_being_torn():
    assert fill(["aaa", "bbb", "cc"], 7, " ") == ["aaa bbb", "cc"]


def test_wrapped_lines_stay_within_the_width():
    pieces = ["makespan 33", "bubble 27%", "a piece that is longer than all of the line it should stand on"]
    lines = wrap(pieces, 14, 200)
    assert all(text_width(line, 14) <= 200 for line in lines)
    assert lines[-1].endswith("…")


def test_wide_letters_and_long_numbers_need_wider_boxes():
    assert label_font("F3", 13) == 9
    assert label_font("W3", 13) == 0
    assert label_font("F123", 20) == 0
    assert label_font("F123", 200) == 14
