"""The paper's figures as data: that they agree with each other, and with what is said about them elsewhere."""

import re
from pathlib import Path

import pytest

import gpipe_edu as ge
from gpipe_edu.data import paper

ROOT = Path(__file__).resolve().parents[2]
NOTES = (ROOT / "docs" / "paper_notes.md").read_text(encoding="utf-8")


def test_each_capacity_fits_its_accelerators():
    for model, gigabytes in (("AmoebaNet-D", 8), ("Transformer", 16)):
        for row in paper.CAPACITY[model]:
            total = (row.parameter_bytes + row.activation_bytes) / row.accelerators
            assert 6e9 < total < gigabytes * 1e9, row


def test_bytes_per_parameter_are_near_twelve_but_for_the_pair_that_looks_swapped():
    odd = [
        row for table in paper.CAPACITY.values() for row in table if not 11 < row.parameter_bytes / row.parameters < 14
    ]
    assert odd == [paper.CAPACITY["Transformer"][0]]
    assert odd[0].activation_bytes / odd[0].parameters == pytest.approx(11.2, abs=0.05)


def test_quoted_ratios():
    amoeba, transformer = paper.CAPACITY["AmoebaNet-D"], paper.CAPACITY["Transformer"]
    assert round(amoeba[-1].parameters / amoeba[0].parameters) == 22
    assert round(transformer[-1].parameters / transformer[0].parameters) in (297, 298)
    assert round(transformer[1].parameters / transformer[0].parameters, 1) == 2.8
    speed = paper.THROUGHPUT["Transformer"]
    assert speed[8, 32] / speed[2, 32] == pytest.approx(3.5)


def test_throughput_has_every_cell_and_is_relative_to_its_first():
    for table in paper.THROUGHPUT.values():
        assert set(table) == {(K, M) for K in (2, 4, 8) for M in (1, 4, 32)}
        assert table[2, 1] == 1
        for M in (1, 4, 32):
            assert table[2, M] < table[4, M] < table[8, M]
    assert all(table[2] == 1 for table in paper.THROUGHPUT_WITHOUT_NVLINK.values())


def test_only_rows_that_were_not_beaten_name_what_was_before():
    lost = [row.dataset for row in paper.TRANSFER if row.previous_best]
    assert lost == ["Stanford Cars", "FGVC Aircraft"]
    assert all(row.accuracy < row.previous_best for row in paper.TRANSFER if row.previous_best)


def test_larger_batches_of_the_table_translate_better():
    assert [row.bleu for row in paper.TRANSLATION] == sorted(row.bleu for row in paper.TRANSLATION)
    assert [row.loss for row in paper.TRANSLATION] == sorted((row.loss for row in paper.TRANSLATION), reverse=True)


def cells_below(heading):
    """The numbers of the table in the notes that follows `heading`, row by row, without each row's own heading."""
    lines = NOTES[NOTES.index(heading) :].partition("\n\n")[0].splitlines()
    units = {"": 1, "M": 1e6, "B": 1e9, "G": 1e9, "K": 1e3}
    return [
        [float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)([MBGK]?)\b", row.split("|", 2)[2])]
        for row in lines[2:]
    ]


def test_the_notes_print_table_one_as_the_data_have_it():
    for heading, model in (("| AmoebaNet-D, 8 GB", "AmoebaNet-D"), ("| Transformer, TPUv3", "Transformer")):
        size, *rest = cells_below(heading)
        rows = paper.CAPACITY[model]
        assert size == [number for row in rows for number in row.size]
        expected = [
            [row.parameters for row in rows],
            [row.parameter_bytes for row in rows],
            [row.activation_bytes for row in rows],
        ]
        for printed, values in zip(rest, expected, strict=True):
            assert printed == pytest.approx(values)


def test_the_notes_print_the_other_tables_as_the_data_have_them():
    both = (paper.THROUGHPUT["AmoebaNet-D"], paper.THROUGHPUT["Transformer"])
    assert cells_below("| | Amoeba K=2") == [[table[K, M] for table in both for K in (2, 4, 8)] for M in (1, 4, 32)]
    assert cells_below("| | K=2") == [list(row.values()) for row in paper.THROUGHPUT_WITHOUT_NVLINK.values()]
    assert cells_below("| transfer") == [[row.accuracy for row in paper.TRANSFER]]
    assert cells_below("| tokens in a batch") == [
        [row.bleu for row in paper.TRANSLATION],
        [row.loss for row in paper.TRANSLATION],
    ]


def planned(K, M, r=1.0, recompute="early"):
    shares = [r ** (-k / K) for k in range(K)]
    F = [share / sum(shares) / M for share in shares]
    return 1 / ge.simulate(ge.gpipe(K, M, recompute), ge.Costs(F=F, B=[2 * f for f in F])).makespan


def off(model, K, M, r=1.0):
    return planned(K, M, r) / planned(2, 1, r) / paper.THROUGHPUT[model][K, M] - 1


def test_what_the_notes_say_about_the_plan_of_table_two():
    assert all(abs(off("Transformer", K, 32)) < 0.051 for K in (2, 4, 8))
    assert f"{planned(4, 1) / planned(2, 1):.2f} where the table has 1.07 (K=4)" in " ".join(NOTES.split())
    low = [round(-100 * off("Transformer", K, 4)) for K in (2, 4, 8)]
    high = [round(100 * off("AmoebaNet-D", K, 4, r=1 / 16)) for K in (2, 4, 8)]
    words = " ".join(NOTES.split())
    assert f"planned {min(low)} to {max(low)} % too low for the Transformer" in words
    assert f"and {min(high)} to {max(high)} % too high for AmoebaNet-D" in words
    cell = f"planned {planned(8, 1) / planned(2, 1):.2f}, reported {paper.THROUGHPUT['Transformer'][8, 1]}"
    assert f"Nor does it explain the Transformer's cell K=8, M=1: {cell}." in words
    assert off("Transformer", 8, 1) < -max(abs(off("Transformer", K, 32)) for K in (2, 4, 8)) - 0.05
    ways = (None, "late", "early")
    most = max(planned(8, 4, 1, cell) / planned(2, 1, 1, base) for cell in ways for base in ways)
    compared = "this run and the one that it is divided by (K=2, M=1) recompute"
    assert f"at most {most:.2f}, no matter what {compared}" in words
    assert 0.3 < 1 - planned(2, 32, 1 / 16) / planned(2, 32) < 0.37


def test_links_of_the_notes_lead_somewhere():
    for target in re.findall(r"\]\(([^)\s]+)\)", NOTES):
        assert (ROOT / "docs" / target).exists(), target
