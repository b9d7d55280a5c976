"""Words of many sentences."""

from gpipe_edu.base.words import join_words, off_by, percent, plural, shorten, with_article


def test_a_number_and_its_noun_agree():
    assert [plural(n, "micro-batch") for n in (0, 1, 2)] == ["0 micro-batches", "1 micro-batch", "2 micro-batches"]
    assert plural(2, "device") == "2 devices"
    assert plural(1 - 1e-15, "device") == "1 device", "what is read as 1"
    assert plural(3, "try", "tries") == "3 tries"


def test_articles_follow_the_sound_of_the_first_letter():
    assert [with_article(noun) for noun in ("list", "array", "int", "Op")] == ["a list", "an array", "an int", "an Op"]


def test_lists_end_before_they_are_too_long():
    assert join_words([]) == ""
    assert join_words([7]) == "7"
    assert join_words(range(3), last=" and ") == "0, 1 and 2"
    assert join_words(range(20), most=2) == "0, 1, ..."


def test_a_shortened_text_keeps_to_its_length():
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefg", 6) == "abc..."


def test_small_shares_keep_a_digit():
    assert percent(0.1234) == "12.3%"
    assert percent(3e-7) == "3e-07"


def test_what_has_no_numbers_is_off_by_no_share():
    assert off_by(0.123) == "off by 12.3%"
    for nothing in (float("inf"), float("nan")):
        assert off_by(nothing) == "no numbers"
        assert off_by(nothing, "none of that form") == "none of that form"
