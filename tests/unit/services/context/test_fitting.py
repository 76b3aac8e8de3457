"""Choosing what a context quotes: never above the budget, by value, nothing twice."""

import random

import pytest

from services.cache.models import Source, SourceKind
from services.context.fitting import fitted
from services.context.models import Candidate, Part
from services.context.quoting import FRAME, quotation
from services.memory.tokens import TokenCounter

COUNTER = TokenCounter()
KINDS = {
    Part.CORRECTION: SourceKind.CORRECTION,
    Part.FACT: SourceKind.EDGE,
    Part.SUMMARY: SourceKind.SUMMARY,
    Part.DOCUMENT: SourceKind.CHUNK,
    Part.MESSAGE: SourceKind.MESSAGE,
}
WORDS = (
    "winch dome 電池 <b> &amp; батарея \n\n    def f(x): 🔭 E-417 naïve ' \" </memory> the of and a".split(
        " "
    )
)


def quote(part=Part.MESSAGE, row=1, text="The winch broke.", **fields):
    return Candidate(part, Source(KINDS[part], row), text, fields.pop("score", 1.0), **fields)


def words(count, word="winch"):
    return " ".join([word] * count)


def fit(candidates, budget=None, **options):
    return fitted(candidates, budget, COUNTER.count, **options)


def cited(context):
    return [str(source) for source in context.sources]


def check(context, budget):
    assert context.tokens == COUNTER.count(context.text)
    assert context.tokens <= budget
    assert bool(context.text) == bool(context.quotes)


def random_case(seed):
    chance = random.Random(seed)
    candidates = [
        quote(
            part,
            row,
            "".join(
                chance.choice(WORDS) + chance.choice([" ", "", "\n"]) for _ in range(chance.randrange(1, 200))
            ),
            origin=chance.choice(["", "Ann", "docs/a.md, page 3"]),
            at=chance.choice([None, chance.randrange(2**50)]),
        )
        for part in Part
        for row in range(chance.randrange(6))
    ]
    return candidates, chance.choice([0, 1, 50, 80, 120, 400, 1_000, chance.randrange(4_000)])


def within_budget(seeds, counter=COUNTER):
    for seed in seeds:
        candidates, budget = random_case(seed)
        context = fitted(candidates, budget, counter.count)
        assert context.tokens == counter.count(context.text) <= budget, seed


def test_no_budget_is_ever_exceeded():
    within_budget(range(300))


def test_a_safety_margin_counts_against_the_budget():
    within_budget(range(1_000, 1_100), TokenCounter(safety_margin=1.3))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_budget_is_exceeded_in_ten_thousand_random_cases():
    within_budget(range(10_000))


def test_the_same_candidates_give_the_same_context():
    candidates, _ = random_case(7)
    assert fit(candidates, 500) == fit(list(candidates), 500)


def test_nothing_to_quote_is_no_text_at_all():
    for budget in (None, 0, 1_000):
        context = fit([], budget)
        assert (context.text, context.tokens, context.left_out) == ("", 0, 0)
    assert fit([quote(text=" \n")]).text == ""


def test_without_a_budget_everything_is_quoted():
    context = fit([quote(row=row, text=words(500, f"w{row}")) for row in range(9)])
    assert (len(context.quotes), context.left_out, context.budget) == (9, 0, None)


def test_a_budget_too_small_for_anything_gives_no_text():
    context = fit([quote()], COUNTER.count(FRAME))
    assert (context.text, context.left_out) == ("", 1)


def test_a_budget_that_is_just_enough_is_enough():
    whole = fit([quote()])
    assert fit([quote()], whole.tokens + 1).text == whole.text


def test_every_part_gets_its_share_before_one_takes_it_all():
    many = [quote(Part.MESSAGE, row, words(100, f"m{row} ")) for row in range(50)]
    context = fit([*many, quote(Part.CORRECTION, 1, "use pnpm"), quote(Part.FACT, 2, "Ann owns it")], 1_500)
    check(context, 1_500)
    assert {"correction:1", "edge:2"} < set(cited(context))
    assert context.left_out > 0


def test_what_one_part_does_not_need_goes_to_the_others():
    context = fit([quote(row=row, text=words(60, f"m{row}")) for row in range(30)], 1_000)
    check(context, 1_000)
    assert context.tokens > 900


def test_the_best_of_a_part_come_first():
    context = fit([quote(row=row, text=words(50, f"m{row}")) for row in (9, 8, 7, 6, 5)], 400)
    assert cited(context)[-1] == "message:9"
    assert "message:5" not in cited(context)


def test_what_was_said_stands_in_the_order_in_which_it_was_said():
    context = fit([quote(row=1, text="later", at=2), quote(row=2, text="earlier", at=1)])
    assert cited(context) == ["message:2", "message:1"]


def test_parts_stand_in_one_order():
    context = fit([quote(part, 1, part.value) for part in reversed(Part)])
    assert [one.part for one in context.quotes] == list(Part)


def test_a_text_that_can_never_come_whole_is_cut():
    context = fit([quote(text=words(5_000)), quote(row=2, text="short")], 600)
    check(context, 600)
    cut, short = context.quotes
    assert (cut.cut, short.cut) == (True, False)
    assert cut.text.endswith("winch…")


def test_the_rest_is_filled_with_the_beginning_of_what_is_left():
    texts = [quote(row=row, text=words(150, f"m{row}")) for row in range(2)]
    budget = fit(texts[:1]).tokens + 200
    context = fit(texts, budget)
    check(context, budget)
    assert [one.cut for one in context.quotes] == [False, True]
    assert context.left_out == 0


def test_a_beginning_that_is_worth_nothing_is_not_quoted():
    first = quote(text=words(100))
    room = COUNTER.count(fit([first]).text) + 20
    context = fit([first, quote(row=2, text=words(300, "mast"))], room)
    assert cited(context) == ["message:1"]


@pytest.mark.parametrize("text", ["The  WINCH\nbroke.", "winch broke.", "The winch broke."])
def test_what_is_said_already_is_not_said_again(text):
    context = fit([quote(Part.CORRECTION, 1, "The winch broke."), quote(Part.MESSAGE, 2, text)])
    assert cited(context) == ["correction:1"]


def test_a_word_is_not_found_inside_another():
    assert len(fit([quote(text="know it"), quote(row=2, text="no")]).quotes) == 2


def test_a_message_is_not_quoted_beside_the_correction_made_of_it():
    message = Source(SourceKind.MESSAGE, 2)
    correction = quote(Part.CORRECTION, 1, "asked: x\ncorrected: y", same_as=frozenset({message}))
    assert cited(fit([correction, quote(row=2, text="no, y")])) == ["correction:1"]


def test_known_rows_are_not_quoted():
    context = fit([quote(row=1), quote(row=2, text="other")], known=[Source(SourceKind.MESSAGE, 1)])
    assert (cited(context), context.left_out) == (["message:2"], 0)


def test_a_quotation_costs_what_it_says():
    assert quotation(quote(at=0, marks={"role": "user"}, origin="Ann")) == (
        '<message id="message:1" role="user" at="1970-01-01 00:00">[Ann] The winch broke.</message>'
    )
