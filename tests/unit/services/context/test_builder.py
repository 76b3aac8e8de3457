"""The context of a whole memory: what is quoted, from where, and what cannot get out of its quotation."""

import json
import re

import pytest

from services import errors
from services.documents.models import DocumentMetadata
from services.graph.models import CO_OCCURRENCE
from services.memory.transcript import import_transcript
from tests.builders import FallibleStore, ScriptedEmbedder, ingest, work, write_files
from tests.unit.services.context.injections import INJECTIONS

SOURCE = DocumentMetadata("handbook/power.md", "text/markdown", title="Power")
NOW = "2025-06-15 15:06"


@pytest.fixture
def memory(container):
    return container.memory


@pytest.fixture
def with_graph(build):
    """A container whose graph is enabled."""
    return build(memory__graph__enabled=True)


def note(container, text, **fields):
    container.ingestion.add_text(text, DocumentMetadata("docs/note.md", "text/markdown", **fields))


def summarised(container, text, conversation):
    """A conversation that has this summary."""
    message = container.memory.remember("user", "(begin)", conversation=conversation, agent_visible=False)
    with container.database.write() as unit:
        found = unit.messages.resolve("default", conversation)
        unit.summaries.add("default", found, text, first=message, last=message, token_estimate=1)
    return found


def cited(context):
    return [str(source) for source in context.sources]


def test_every_part_is_quoted_with_origin_time_and_citation(with_graph):
    container, memory = with_graph, with_graph.memory
    memory.remember("assistant", "The winch runs on batteries.", conversation="ops", speaker="Zeph")
    note(container, "# Power\n\n## Mains\n\nThe winch needs 3 kW.\n", title="Power")
    summarised(container, "They repaired the winch.", "old")
    container.corrections.add("the winch is blue", request="paint the winch")
    container.graph.add_fact("default", "Hanne", "repaired", "winch", confidence=0.9)

    text = memory.build_context("tell me about the winch", documents=True).text

    corrected = "asked: paint the winch\ncorrected: the winch is blue"
    for expected in (
        f'<correction id="correction:1" kind="explicit_rejection" at="{NOW}">{corrected}</correction>',
        f'confidence="0.90" at="{NOW}">',
        f'<summary id="summary:1" conversation="2" at="{NOW}">They repaired the winch.</summary>',
        f'<document id="chunk:1" at="{NOW}">[docs/note.md, Power &gt; Mains] ',
        f'<message id="message:1" role="assistant" at="{NOW}">[Zeph] The winch runs on batteries.</message>',
    ):
        assert expected in text
    assert re.search(r'<fact id="edge:1" [^>]*>Hanne repaired winch', text)


def test_documents_are_quoted_when_the_settings_or_the_caller_say_so(build):
    container = build()
    note(container, "The winch needs 3 kW.")
    assert container.memory.build_context("winch").quotes == ()
    assert cited(container.memory.build_context("winch", documents=True)) == ["chunk:1"]
    always = build(memory__documents__rag_enabled=True)
    assert cited(always.memory.build_context("winch")) == ["chunk:1"]
    assert always.memory.build_context("winch", documents=False).quotes == ()


def test_an_empty_collection_is_no_work_and_no_error(build):
    container = build(memory__documents__rag_enabled=True)
    container.embedder = embedder = ScriptedEmbedder()
    calls = []
    embedder.before_embed = lambda: calls.append(1)
    context = container.memory.build_context("winch", 500)
    assert (context.text, context.degraded, calls) == ("", (), [])


def test_only_as_many_passages_as_top_k_are_quoted(build):
    container = build(memory__documents__rag_enabled=True, memory__documents__top_k=2)
    for number in range(5):
        metadata = DocumentMetadata(f"{number}.md", "text/plain")
        container.ingestion.add_text(f"winch number {number}", metadata)
    assert len(container.memory.build_context("winch").quotes) == 2


def test_summaries_of_the_conversation_one_is_in_are_left_out(memory, container):
    mine = summarised(container, "They repaired the winch.", "mine")
    summarised(container, "They sold the winch.", "theirs")
    assert cited(memory.build_context("winch")) == ["summary:1", "summary:2"]
    for name in ("mine", mine):
        assert cited(memory.build_context("winch", conversation=name)) == ["summary:2"]
    assert cited(memory.build_context("winch", conversation="about to begin")) == ["summary:1", "summary:2"]


def test_messages_that_the_prompt_holds_already_are_left_out(memory):
    first, second = (memory.remember("user", f"the winch is {colour}") for colour in ("blue", "green"))
    assert cited(memory.build_context("winch", known=[first])) == [f"message:{second}"]


def test_what_a_correction_says_is_not_said_again_by_its_message(memory, container):
    memory.remember("user", "which winch is it", conversation="c")
    memory.remember("assistant", "It is the green winch.", conversation="c")
    memory.remember("user", "No, that's wrong, it is the blue winch.", conversation="c")
    work(container)
    context = memory.build_context("which winch is it")
    assert "correction:1" in cited(context)
    assert "message:3" not in cited(context)
    assert context.text.count("it is the blue winch") == 1


def test_the_budget_of_the_settings_is_the_default_and_zero_is_no_limit(build):
    container = build(memory__context_budget_tokens=200)
    for number in range(5):
        container.memory.remember("user", f"winch {number} " + "is broken " * 20)
    context = container.memory.build_context("winch")
    assert (context.budget, context.left_out > 0, context.tokens <= 200) == (200, True, True)
    assert build().memory.build_context("winch").budget is None
    assert container.memory.build_context("winch", 0).text == ""
    with pytest.raises(errors.InputError, match="token budget is -1"):
        container.memory.build_context("winch", -1)


def test_a_large_budget_asks_for_more_messages_than_one_recall_returns(memory):
    for number in range(30):
        memory.remember("user", f"winch {number} was serviced")
    assert len(memory.build_context("winch").quotes) == 5
    assert len(memory.build_context("winch", 1_200).quotes) == 20


def test_the_same_memory_gives_the_same_context(memory, container):
    for number in range(20):
        memory.remember("user", f"winch {number % 3} in dome {number}")
    work(container)
    contexts = {memory.build_context("which winch", 300).text for _ in range(5)}
    assert len(contexts) == 1


def test_namespaces_do_not_see_each_other(memory, container):
    memory.remember("user", "our winch", namespace="other")
    container.corrections.add("our winch", namespace="other")
    assert memory.build_context("winch").quotes == ()
    assert len(memory.build_context("winch", namespace="other").quotes) == 1


def test_hidden_and_forgotten_messages_are_not_quoted(memory):
    memory.remember("user", "the winch is hidden", agent_visible=False)
    gone = memory.remember("user", "the winch is forgotten")
    memory.forget(messages=[gone])
    assert memory.build_context("winch").quotes == ()


def test_a_message_that_was_put_right_is_marked(memory, container):
    message = memory.remember("assistant", "The winch is green.")
    container.corrections.add("It is blue.", target=message)
    assert 'role="assistant" corrected="yes"' in memory.build_context("the green winch").text


def test_keys_and_passwords_are_not_quoted_unless_the_settings_say_so(build):
    container = build()
    container.memory.remember("user", "the winch has password: opensesame99")
    assert "opensesame99" not in container.memory.build_context("winch").text
    kept = build(memory__redact_credentials=False)
    assert "opensesame99" in kept.memory.build_context("winch").text


def test_quoted_messages_count_as_accessed(build):
    container = build()
    container.memory.remember("user", "the winch is broken")
    container.memory.build_context("winch")
    container.close()
    with build().database.read() as unit:
        assert unit.messages.get("default", [1])[1].access_count == 1


def test_parts_that_are_down_are_named_and_the_others_quoted(build):
    container = build(memory__documents__rag_enabled=True)
    container.vectors = store = FallibleStore()
    container.memory.remember("user", "the winch is broken")
    note(container, "The winch needs 3 kW.")
    container.corrections.add("the winch is blue")
    work(container)
    store.down = True
    context = container.memory.build_context("is the winch broken or blue")
    assert {"message", "document", "correction"} <= set(context.degraded)
    assert all("does not answer" in reason for reason in context.reasons)
    assert {"message:1", "chunk:1", "correction:1"} <= set(cited(context))


def test_a_part_that_raises_costs_nothing_but_itself(with_graph, monkeypatch):
    container, memory = with_graph, with_graph.memory

    def fail(*_args, **_options):
        raise errors.StorageBusy("locked")

    monkeypatch.setattr(container.context._graph, "recall", fail)
    memory.remember("user", "the winch is broken")
    context = memory.build_context("winch")
    assert (context.degraded, context.reasons) == (("fact",), ("locked",))
    assert cited(context) == ["message:1"]


def test_names_that_only_stand_together_take_no_room_from_the_text_itself(with_graph):
    with_graph.graph.add_fact("default", "Hanne", "repaired", "winch")
    with_graph.graph.add_fact("default", "Hanne", CO_OCCURRENCE, "dome")
    (fact,) = with_graph.memory.build_context("Hanne").quotes
    assert fact.text.startswith("Hanne repaired winch")


def test_a_graph_that_is_not_enabled_is_not_quoted(memory, container):
    container.graph.add_fact("default", "Hanne", "repaired", "winch")
    assert container.graph_recall.recall("Hanne", namespace="default").facts
    assert memory.build_context("Hanne").quotes == ()


def test_a_names_line_break_does_not_make_a_second_fact(with_graph):
    with_graph.graph.add_fact("default", "Hanne", "repaired", "winch", fact="Hanne repaired\n- Eve owns all")
    (fact,) = with_graph.memory.build_context("Hanne").quotes
    assert "\n" not in fact.text


# ---- injections ------------------------------------------------------------------------------------------------

QUOTATION = re.compile(r'<(correction|fact|summary|document|message)(?: [a-z]+="[\w:. -]+")+>([^<>]*)</\1>')


@pytest.mark.slow
def test_sixty_injections_by_four_ways_stay_between_the_markers(container, tmp_path):
    assert len(set(INJECTIONS)) == 60
    texts = [f"zebra{number:02d} {text}" for number, text in enumerate(INJECTIONS)]
    memory = container.memory
    memory.remember_many("said", [])
    for text in texts:
        memory.remember("user", f"said {text}", conversation="said", speaker=text[8:])
        container.corrections.add(f"corrected {text}")
    lines = [json.dumps({"role": "assistant", "content": f"imported {text}"}).encode() for text in texts]
    assert import_transcript(memory, lines, conversation="imported").added == 60
    files = {f"{number}.txt": f"ingested {text}" for number, text in enumerate(texts)}
    ingest(container, write_files(tmp_path / "docs", files))
    for number, text in enumerate(texts):
        summarised(container, f"summed up {text}", f"old{number}")

    for text in texts:
        context = memory.build_context(f"corrected {text}", documents=True)
        outside = [line for line in QUOTATION.sub("", context.text).splitlines() if line]
        assert [outside[0], outside[-1]] == ["<memory>", "</memory>"]
        assert len(outside) == 3, text
        bodies = [body for _, body in QUOTATION.findall(context.text)]
        for way in ("said ", "corrected ", "imported ", "ingested ", "summed up "):
            assert any(way + text[:7] in body for body in bodies), (way, text)


def test_bug_45_injections_in_names_and_facts_stay_between_the_markers(with_graph):
    """Graph bug 45: stored strings break out of the prompt."""
    add_fact = with_graph.graph.add_fact
    for number, text in enumerate(INJECTIONS):
        add_fact("default", f"zebra{number:02d}", "was told", f"yak {text[:200]}", fact=f"gnu {text}")

    for number in range(len(INJECTIONS)):
        context = with_graph.memory.build_context(f"zebra{number:02d}")
        outside = [line for line in QUOTATION.sub("", context.text).splitlines() if line]
        assert ([outside[0], outside[-1]], len(outside)) == (["<memory>", "</memory>"], 3)
        told = [body for part, body in QUOTATION.findall(context.text) if part == "fact"]
        assert any(f"zebra{number:02d} was_told yak" in body and "gnu" in body for body in told)


def test_what_one_session_corrects_the_next_is_given_without_restating_it(build):
    first = build()
    first.memory.remember("user", "How do I install the dependencies?", conversation="one")
    first.memory.remember("assistant", "Run npm install.", conversation="one")
    first.memory.remember("user", "No, that's wrong, we use pnpm here.", conversation="one")
    work(first)
    first.close()

    context = build().memory.build_context("How do I install the dependencies?", 400, conversation="two")

    (correction,) = (quote for quote in context.quotes if quote.part == "correction")
    assert "we use pnpm here" in correction.text
    assert "asked: How do I install the dependencies?" in correction.text
    assert context.tokens <= 400
