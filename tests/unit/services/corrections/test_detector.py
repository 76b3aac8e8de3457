"""Messages in, signals out: which are corrections, of what kind, and how the turn before decides."""

from __future__ import annotations

import re
import time
from collections import Counter
from pathlib import Path

import pytest

from services.corrections.detector import FeedbackDetector, is_standing
from services.corrections.models import CorrectionKind

DONE = "I have added the function to the parser, and all tests pass."
QUESTION = "Two files are left. Shall I change both of them?"
ANNOUNCEMENT = "ok let me look into some options for you"

detector = FeedbackDetector()


def kind(message, previous=(), answer=""):
    signal = detector.detect(message, previous, answer=answer)
    return None if signal is None else signal.kind.value


def confidence(message, previous=(), answer=""):
    signal = detector.assess(message, previous, answer=answer)
    return 0.0 if signal is None else signal.confidence


# ---- the kinds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message", ["please list all files", "what is 2+2?", "show me the git log", "", " \n"]
)
def test_ordinary_requests_are_no_corrections(message):
    assert kind(message) is None


@pytest.mark.parametrize(
    "message",
    [
        "no that's wrong",
        "nope",
        "that didn't work at all",
        "That's wrong, I wanted something different",
        "don't do that again",
        "bad answer, try again",
        "dont do that again",
        "thats wrong",
        "That\u2019s wrong",
        "NO!",
    ],
)
def test_a_rejection_needs_no_turn_before(message):
    assert kind(message) == "explicit_rejection"


@pytest.mark.parametrize(
    "message",
    [
        "instead use git rebase",
        "try a different approach",
        "rather than git merge, use git rebase",
        "can you try it differently",
    ],
)
def test_another_way_is_asked_for_at_a_confidence_of_exactly_the_threshold(message):
    signal = detector.detect(message)
    assert (signal.kind, signal.confidence) == (CorrectionKind.ALTERNATIVE_REQUEST, 0.70)


def test_a_higher_threshold_suppresses_alternatives_and_repetitions_but_no_rejection():
    strict = FeedbackDetector(0.80)
    said = "please run the slow tests of the parser"
    assert strict.detect("try a different approach") is None
    assert strict.detect(said, [said]) is None
    assert strict.detect("no that's wrong").kind == CorrectionKind.EXPLICIT_REJECTION


@pytest.mark.parametrize(
    "again",
    [
        "please run the slow tests of the parser now",
        "please run the slow tests of the parser now then",
        "Please, run the slow tests of the parser now!",
    ],
)
def test_the_same_again_or_with_one_more_word_is_a_repetition(again):
    assert kind(again, ["please run the slow tests of the parser now"]) == "repetition"


def test_only_the_last_three_messages_are_compared():
    said = "please run the slow tests of the parser"
    others = ["one more thing", "and another", "that is all"]
    assert kind(said, [said, *others[:2]]) == "repetition"
    assert kind(said, [said, *others]) is None


@pytest.mark.parametrize("message", ["go on", "yes", "ok", "weiter"])
def test_what_is_said_again_and_again_anyway_is_no_repetition(message):
    assert kind(message, [message]) is None


def test_long_texts_that_begin_alike_are_no_repetition():
    begins = "please fix this log: " + "line of the log " * 1_000
    assert kind(begins + "one", [begins + "one"]) == "repetition"
    assert kind(begins + "one", [begins + "and another end"]) is None


def test_a_repetition_is_found_in_scripts_without_blanks():
    assert kind("请把所有的测试再运行一遍", ["请把所有的测试再运行一遍"]) == "repetition"
    assert kind("请把所有的文档翻译成法语", ["请把所有的测试再运行一遍"]) is None


def test_a_fact_is_put_right_where_something_was_stated():
    assert kind("there is no such parameter", answer=DONE) == "factual"
    assert kind("that was intentional, leave it", answer=DONE) == "factual"
    assert kind("not called with three, with four", answer=DONE) == "factual"


@pytest.mark.parametrize(
    "message",
    [
        "hmm, that is still wrong",
        "I think it isn't right yet, look at line 4",
        "so that's not what I asked for",
        "I see that it doesn't work there",
        "well what the hell happened there",
        "I guess you missed the second half",
        "I guess you're making things up",
        "the second figure is wrong",
        "look, the page doesn't load",
        "see, you didn't run it",
        "the method you call does not exist",
        "and the test still fails",
        "I fear that's not how it works",
        "now it breaks at the first line",
        "what a ridiculous name",
        "the title is too long",
        "that is unlikely to work here",
        "the page loads, but the picture doesn't show",
        "I get no answer from it",
        "I can't see any difference",
        "the button is in the wrong place",
        "the key should not be in the repository",
        "that line is not needed",
        "please undo that",
        "leave the header alone",
        "and we don't use tabs here",
        "the gap was intentional",
        "it should have been seven",
        "we write metres, not feet",
        "and make it green instead",
        "as I said, use the other branch",
        "we already have a helper for that",
        "I thought we agreed on seven",
        "did I have to tell you twice",
        "wait, didn't we already settle that",
        "please just stop guessing",
        "but I asked for a list",
    ],
)
def test_each_phrase_is_found_behind_other_words(message):
    assert kind(message, answer=DONE) is not None


# ---- words that only look like it ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        "now run it",
        "note this for later",
        "nothing else",
        "normal mode please",
        "November was cold",
        "no worries",
        "no problem",
        "no rush",
        "no need to hurry",
        "no, thanks",
        "knowing that helps",
    ],
)
@pytest.mark.parametrize("answer", ["", DONE])
def test_b_24_a_word_that_begins_like_no_is_no_rejection(message, answer):
    """B-24."""
    assert kind(message, answer=answer) is None


@pytest.mark.parametrize(
    "message",
    [
        "actually I was wrong about that",
        "oops, I meant the other branch",
        "sorry, my mistake",
        "scratch that",
        "wait, no, on Tuesday",
    ],
)
@pytest.mark.parametrize("answer", ["", DONE, QUESTION])
def test_b_23_who_corrects_himself_is_not_held_against_the_answer(message, answer):
    """B-23."""
    assert kind(message, answer=answer) == "self_correction"


@pytest.mark.parametrize(
    "message",
    [
        "actually, let's also add tests",
        "Actually, can you add a page on setup?",
        "try the other file too",
        "use Python for the script",
        "actually, thanks, that is all",
        "wait, no tests are missing, right?",
    ],
)
@pytest.mark.parametrize("answer", ["", DONE, QUESTION, ANNOUNCEMENT])
def test_b_23_actually_try_and_use_begin_ordinary_requests_too(message, answer):
    """B-23."""
    assert kind(message, answer=answer) is None


@pytest.mark.parametrize(
    "message",
    [
        "that's not bad",
        "you're not wrong",
        "it isn't wrong",
        "that's not a problem",
        "never the wrong answer",
    ],
)
@pytest.mark.parametrize("answer", ["", DONE])
def test_denied_faults_are_no_corrections(message, answer):
    assert kind(message, answer=answer) is None


@pytest.mark.parametrize(
    "message",
    [
        "if that's wrong, tell me",
        "make sure it doesn't crash on an empty file",
        "I hope that didn't break the build",
        "I'm worried it doesn't fit into one page",
    ],
)
@pytest.mark.parametrize("answer", ["", DONE])
def test_what_is_feared_or_hoped_has_not_happened(message, answer):
    assert kind(message, answer=answer) is None


@pytest.mark.parametrize(
    "message",
    [
        'rename the button to "that\'s wrong"',
        "explain this:\n> no, that's wrong\n> I wanted something else",
        "what does this print?\n```\nprint('that is wrong')\n```",
        "add a test for `it doesn't work`",
    ],
)
def test_what_is_quoted_or_code_is_not_what_the_user_says(message):
    assert kind(message, answer=DONE) is None


# ---- the turn before decides -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message", ["no", "No, only the first one", "nope, leave it", "I don't want that yet"]
)
def test_a_no_after_a_question_is_an_answer(message):
    assert kind(message, answer=DONE) == "explicit_rejection"
    assert kind(message, answer=QUESTION) is None
    assert confidence(message, answer=QUESTION) == 0.55


def test_a_loud_no_after_a_question_is_none():
    assert kind("NO! NO! Ask me first!", answer=QUESTION) == "explicit_rejection"


def test_a_fault_is_a_fault_after_a_question_too():
    assert kind("that's wrong, the second one is mine", answer=QUESTION) == "explicit_rejection"
    assert kind("you forgot the header", answer=QUESTION) == "explicit_rejection"


def test_actually_corrects_only_what_was_stated():
    assert kind("Actually, it's in Bergen", answer="The office is in Oslo.") == "factual"
    assert kind("Actually, it's in Bergen") is None
    assert kind("actually, it's in Bergen", answer=QUESTION) is None


def test_a_wish_changed_before_anything_was_done_is_none_of_the_agents_mistakes():
    assert kind("instead, in the old town", answer=DONE) == "alternative_request"
    assert kind("instead, in the old town", answer=ANNOUNCEMENT) is None
    assert kind("instead could it be in the old town", answer=DONE) is None


def test_a_report_of_failure_needs_somebody_who_did_something():
    for message in ("still red", "it doesn't compile", "the test still fails", "same error"):
        assert kind(message, answer=DONE) == "explicit_rejection", message
        assert kind(message) is None, message


def test_thanks_and_agreement_weigh_against_a_weak_phrase():
    assert kind("it still shows two lines", answer=DONE) == "explicit_rejection"
    assert kind("great, it still shows two lines", answer=DONE) is None
    assert kind("great, but it still shows two lines", answer=DONE) == "explicit_rejection"


def test_no_i_meant_is_a_misunderstanding_after_an_answer_and_a_slip_after_ones_own_words():
    message = "no, I meant the staging server"
    assert kind(message, ["deploy it"], answer=DONE) == "explicit_rejection"
    assert kind(message, ["deploy it to production"]) == "self_correction"
    assert kind(message) == "explicit_rejection"


def test_a_slip_within_a_sentence_is_nobody_elses_mistake():
    message = "Which river runs through Bergen no that's wrong sorry through Prague?"
    assert kind(message) == "self_correction"
    assert kind("Which river runs, no that is not right, flows through Prague?") is None


def test_a_signal_says_whether_the_turn_before_is_meant():
    assert detector.detect("that's wrong", answer=DONE).targets_turn
    assert not detector.detect("that's wrong").targets_turn
    assert detector.detect("oops, I meant Tuesday", ["book Monday"]).targets_turn
    assert not detector.detect("book Monday, sorry, I meant Tuesday", ["hello"]).targets_turn


# ---- other people's bug reports --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("Actually, let's also add tests", None),
        ("Revert the last commit", None),
        ("Stop the dev server and restart it", None),
        ("no rush", None),
        ("You missed the null case", "explicit_rejection"),
        ("This is the third time \u2014 read the file first.", "repetition"),
    ],
)
def test_case_correction_01_requests_and_complaints_are_told_apart(message, wanted):
    assert kind(message) == wanted


def test_case_correction_03_a_doubt_about_a_plan_is_none_about_finished_work():
    message = "That approach won't work for streams, let's use a queue instead"
    assert (
        kind(message, answer="I've rewritten the importer with threads. All tests pass.")
        == "explicit_rejection"
    )
    assert kind(message) is None
    assert confidence(message) < 0.7


@pytest.mark.parametrize("message", ["I was wrong", "my mistake", "oops, I meant the other one"])
def test_case_correction_05_a_self_correction_is_not_counted_against_the_answer(message):
    assert kind(message, answer=DONE) == "self_correction"


def test_case_correction_07_a_sentence_about_wrong_answers_is_no_correction():
    message = "a well-composed page is never the wrong answer"
    assert kind(message) is None
    assert kind(message, answer=DONE) is None


# ---- seven languages -------------------------------------------------------------------------------------------

LANGUAGES = {
    "explicit_rejection": [
        "That is not correct",
        "Нет, это не то",
        "Ты ошибся, файл в другой папке",
        "Eso está mal, usa el otro",
        "No, eso no es correcto",
        "Das ist falsch",
        "Nein, das stimmt nicht",
        "C'est faux",
        "Non, ce n'est pas ça",
        "不对，应该是四个",
        "違います、四つです",
    ],
    "alternative_request": [
        "вместо этого используй другой",
        "en lugar de eso usa el otro",
        "stattdessen nimm das andere",
        "utilise plutôt l'autre",
        "换一种方法",
        "代わりに別のを使って",
    ],
    "self_correction": [
        "я ошибся, в четверг",
        "me equivoqué, es el jueves",
        "ich meinte Donnerstag",
        "je voulais dire jeudi",
        "我说错了，是星期四",
        "言い間違えました、木曜日です",
    ],
}


@pytest.mark.parametrize(("wanted", "message"), [(k, m) for k, many in LANGUAGES.items() for m in many])
def test_corrections_are_found_in_seven_languages(wanted, message):
    assert kind(message) == wanted


@pytest.mark.parametrize(
    "message",
    [
        "Не работает",
        "No funciona",
        "Das funktioniert immer noch nicht",
        "Ça ne marche pas",
        "还是不行",
        "動きません",
    ],
)
def test_reports_of_failure_need_a_turn_before_in_other_languages_too(message):
    assert kind(message, answer=DONE) == "explicit_rejection"
    assert kind(message) is None


@pytest.mark.parametrize("word", ["no", "No.", "нет", "nein!", "Non", "不", "不是。", "いいえ"])
def test_a_bare_no_counts_as_the_whole_message(word):
    assert kind(word, answer=DONE) == "explicit_rejection"
    assert kind(word, answer="四つですか？") is None


@pytest.mark.parametrize(
    "message",
    [
        "нетто-вес товара",
        "нет, спасибо",
        "no me digas",
        "nota esto por favor",
        "nein danke",
        "Das ist nicht dringend",
        "Ich habe noch nicht angefangen",
        "Ich habe nicht viel Zeit",
        "todavía no he empezado",
        "я ещё не начал",
        "je n'ai pas encore commencé",
        "我没用过这个",
        "Lieber Hans, danke",
        "non merci",
        "Nonante-neuf, c'est quoi ?",
        "不错，谢谢",
        "没问题",
        "いい天気ですね",
        "違う色のシャツもください",
    ],
)
def test_lookalikes_of_other_languages_are_none(message):
    assert kind(message, answer=DONE) is None


def test_in_the_middle_of_a_message_a_foreign_phrase_counts_a_tenth_less():
    assert confidence("Das ist falsch") == 0.85
    assert confidence("Ich glaube, das ist falsch") == pytest.approx(0.75)


# ---- many sentences ----------------------------------------------------------------------------------------------

TURNS = {"done": DONE, "asked": QUESTION, "announced": ANNOUNCEMENT, "nothing": ""}


def sentences():
    """(language, label, turn before, message) of the file beside this one."""
    head = ("", "", "")
    for line in Path(__file__).with_name("sentences.txt").read_text(encoding="utf-8").splitlines():
        if found := re.fullmatch(r"\[(\w+) (\w+) (\w+)\]", line):
            head = found.groups()
        elif line and not line.startswith("# "):
            yield *head, line


def found_kind(language, label, turn, message):
    """What is found, so that it compares with a label: every kind but one's own slips is the answer's fault."""
    found = kind(message, ["please do the thing"] if turn != "nothing" else [], answer=TURNS[turn])
    return found if found in (None, "self_correction") or label in ("none", "self_correction") else label


def test_of_many_corrections_nearly_all_are_found_and_of_lookalikes_hardly_any():
    """Precision at least 0.97 at a recall of at least 0.95; in each language 0.9 and 0.9."""
    counts = Counter()
    for language, label, turn, message in sentences():
        if label.endswith("instruction"):
            continue
        found = found_kind(language, label, turn, message)
        for group in ("all", language):
            counts[group, "corrections"] += label != "none"
            counts[group, "right"] += label != "none" and found == label
            counts[group, "found"] += found is not None
            counts[group, "lookalikes"] += label == "none"
    assert counts["all", "corrections"] >= 240
    assert counts["all", "lookalikes"] >= 250
    for group in ("all", "en", "ru", "es", "de", "fr", "zh", "ja"):
        recall = counts[group, "right"] / counts[group, "corrections"]
        precision = counts[group, "right"] / counts[group, "found"]
        least = (0.95, 0.97) if group == "all" else (0.9, 0.9)
        assert recall >= least[0], group
        assert precision >= least[1], group


def test_nine_in_ten_of_every_kind_are_found():
    counts = Counter()
    for language, label, turn, message in sentences():
        counts[label, found_kind(language, label, turn, message) == label] += 1
    for label in ("explicit_rejection", "alternative_request", "factual", "repetition", "self_correction"):
        assert counts[label, True] >= 9 * counts[label, False], label


@pytest.mark.parametrize("label", ["instruction", "no_instruction"])
def test_what_holds_from_now_on_is_told_from_what_only_says_always(label):
    said = [message for _, found, _, message in sentences() if found == label]
    assert len(said) > 20
    assert [message for message in said if is_standing(message) != (label == "instruction")] == []


# ---- bounds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "piece",
    ["no ", "ok ", "> ", '"', "`", "```", "\n> ", "a", "不", "is still too ", "it doesn't work ", "not, "],
)
def test_a_message_of_any_length_takes_no_longer_than_a_page(piece):
    def seconds(length):
        message = piece * (length // len(piece))
        started = time.process_time()
        for _ in range(3):
            detector.detect(message, [message], answer=message)
        return (time.process_time() - started) / 3

    assert seconds(1_000_000) < 20 * seconds(10_000) + 0.02


@pytest.mark.parametrize("piece", ["always ", "you ", "immer und ", "必ず", "siempre nunca ", "the the "])
def test_an_instruction_of_any_length_takes_no_longer_than_a_page(piece):
    def seconds(length):
        message = piece * (length // len(piece))
        started = time.process_time()
        for _ in range(3):
            is_standing(message)
            detector.detect(message, answer=DONE)
        return (time.process_time() - started) / 3

    assert seconds(1_000_000) < 20 * seconds(10_000) + 0.02


def test_any_text_at_all_is_read():
    for text in ("\x00", "\ud83d", "\u202eno", "no\u0000", "(((((", "\\", "🙂🙂🙂", "\n\n\n"):
        detector.detect(text, [text], answer=text)
