"""Choosing benchmarks by name and pattern."""

import pytest

from airflow_gym_provider.task_groups._choose import ChoiceError, choose, read_patterns

NAMES = ["gpqa", "mmlu_pro", "mmlu", "slow_code"]


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ([], NAMES),
        (["mmlu*"], ["mmlu_pro", "mmlu"]),
        (["mmlu", "gpqa"], ["gpqa", "mmlu"]),
        (["!slow_*"], ["gpqa", "mmlu_pro", "mmlu"]),
        (["*", "!mmlu*", "!gpqa"], ["slow_code"]),
        (["[gm]*", "!mmlu"], ["gpqa", "mmlu_pro"]),
    ],
)
def test_patterns_choose_in_the_configs_order(patterns, names):
    assert choose(NAMES, patterns) == names


def test_every_pattern_that_matches_nothing_is_named_with_a_guess():
    with pytest.raises(ChoiceError) as caught:
        choose(NAMES, ["gqpa", "mmlu", "!sloww_code", "x*"])
    lines = str(caught.value).splitlines()
    assert lines == [
        "benchmarks: 'gqpa' matches none; did you mean 'gpqa'?",
        "benchmarks: 'x*' matches none",
        "benchmarks: 'sloww_code' matches none; did you mean 'slow_code'?",
        "driver.benchmarks has gpqa, mmlu_pro, mmlu, slow_code",
    ]


def test_choosing_nothing_is_an_error():
    with pytest.raises(ChoiceError, match=r"mmlu\*, !mmlu\* leaves none"):
        choose(NAMES, ["mmlu*", "!mmlu*"])


@pytest.mark.parametrize(
    ("given", "patterns"),
    [
        (None, []),
        ("", []),
        ("None", []),
        ("gpqa", ["gpqa"]),
        ("gpqa, mmlu* ,", ["gpqa", "mmlu*"]),
        ("['gpqa', '!x']", ["gpqa", "!x"]),
        ('["gpqa"]', ["gpqa"]),
        (["gpqa", "mmlu*,x", ""], ["gpqa", "mmlu*", "x"]),
        (["[gm]*", "!slow_[ab]?"], ["[gm]*", "!slow_[ab]?"]),
        ("['[gm]*', 'x']", ["[gm]*", "x"]),
        (["['gpqa', 'x']"], ["gpqa", "x"]),
        (("gpqa",), ["gpqa"]),
    ],
)
def test_what_dags_templates_and_forms_give(given, patterns):
    assert read_patterns(given) == patterns


@pytest.mark.parametrize("given", [7, "[gpqa", "[gpqa]"])
def test_what_is_no_list_of_names_is_refused(given):
    with pytest.raises(ChoiceError, match="benchmarks"):
        read_patterns(given)


@pytest.mark.parametrize("nothing", [[], (), "[]"])
def test_a_task_that_chose_none_does_not_get_all(nothing):
    with pytest.raises(ChoiceError, match="an empty list chooses none"):
        read_patterns(nothing)
