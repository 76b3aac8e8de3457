"""Words by which names are told from other capitalised words. All in lower case."""

from __future__ import annotations

from services.retrieval.query import STOP_WORDS as _SEARCH_STOP_WORDS

# What carries the grammar of English, contractions written out.
STOP_WORDS = _SEARCH_STOP_WORDS | frozenset(
    """
    i'm i've i'll i'd you're you've you'll you'd he's she's it's we're we've we'll we'd they're they've they'll that's
    there's here's what's who's where's how's let's don't doesn't didn't isn't aren't wasn't weren't won't can't couldn't
    shouldn't wouldn't haven't hasn't hadn't ain't cannot may might must shall upon within without among since via per also
    though although unless whether either neither yet still even ever never always often another such many much several
    something anything everything nothing someone anyone everyone nobody one two three four five six seven eight nine ten
    first second third last next
    """.split()
)

# How sentences begin that go on without a name: exclamations, adverbs, verbs of requests.
OPENERS = frozenset(
    """
    hey hi hello hiya yo wow oh ooh ah aw aww haha hahaha lol yeah yep yes yup nope no nah ok okay sure thanks thank thx
    please sorry well so anyway alright right cool nice great good awesome amazing absolutely totally definitely exactly
    actually basically honestly seriously really maybe perhaps probably hopefully unfortunately luckily fortunately
    dear congrats congratulations cheers bye goodbye welcome happy merry glad check look listen remember guess
    today tomorrow yesterday tonight later soon now recently lately currently finally eventually initially originally
    previously meanwhile however therefore moreover furthermore additionally nevertheless nonetheless otherwise instead
    besides thus hence then afterwards afterward subsequently similarly likewise conversely despite throughout during
    according due given based born located known named called founded established released published written directed
    produced produced starring following including together along located set like unlike despite whereas
    note todo fixme warning error info update edit example question answer step part chapter section figure table
    tell give show make let use try add remove run open close see read write help explain describe list find get go come
    take keep put send call ask say talk speak think know want need love hate hope wish wonder
    did does do can could will would should has have had is are was were am be been
    my your his her its our their this that these those some any all both each every most more few other
    mom mum dad grandma grandpa mama papa
    """.split()
)

# Spoken abbreviations and shouted words that are no names.
ABBREVIATED_SPEECH = frozenset(
    """
    ok lol omg wtf btw fyi imo imho asap rsvp aka eta faq diy tbh idk brb nsfw tldr todo fixme note warning error info
    debug important am pm bc ad bce ce mr mrs ms dr tv pc cv ps dm pm rip xoxo usd eur gbp jpy kg km cm mm mb gb tb kb
    cd dvd lp ep ceo cto cfo mba phd ba ma bsc msc sr jr fm inc ltd
    and or not if no yes the a an this that must shall do never always please stop now new all any
    """.split()
)

CALENDAR = frozenset(
    """
    monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september
    october november december jan feb mar apr jun jul aug sep sept oct nov dec mon tue tues wed thu thurs fri sat sun
    spring summer autumn winter fall christmas easter halloween thanksgiving
    """.split()
)

# Small words inside names, such as "Ludwig van Beethoven". "of", "for" and "the" join only what is in GROUP_HEADS.
CONNECTORS = frozenset(
    "de la del della dei di da do dos das du des van von der den ter al el ibn bin y zu zum af av".split()
)

# Before a person's name, and no part of it.
TITLES = frozenset(
    """
    mr mrs ms miss mister dr prof professor doctor sir madam lady lord dame rev reverend father sister brother
    prime president vice-president senator congressman congresswoman governor mayor minister chancellor ambassador judge justice
    king queen prince princess emperor empress pope bishop archbishop cardinal saint rabbi imam
    captain colonel general admiral major lieutenant sergeant commander officer detective inspector coach
    uncle aunt auntie cousin
    """.split()
)

# "University of Vienna" is one name, "Mayor of London" is not.
GROUP_HEADS = frozenset(
    """
    university college school academy institute faculty department ministry bank house museum library church cathedral abbey
    council court board bureau office chamber association federation society union league order army bank
    republic kingdom duchy empire state states county province isle isles island islands gulf bay cape strait sea lake mount
    battle siege treaty declaration bill act war wars festival cup hall tower temple palace lord lords master legend game
    communist people's democratic party center centre organization organisation foundation guild house church
    """.split()
)

# What the last word of a name tells of it.
GROUP_WORDS = frozenset(
    """
    inc corp corporation ltd llc plc gmbh ag company co university college institute academy school bank association
    foundation committee council ministry department party club records airlines press society agency group union
    federation league orchestra museum library church council commission bureau industries holdings partners labs systems
    technologies entertainment studios pictures
    """.split()
)

LANGUAGES = frozenset(
    """
    python javascript typescript java kotlin rust haskell scala ruby perl php sql c++ c# f# fortran cobol elixir erlang
    clojure ocaml golang objective-c matlab prolog lua zig
    """.split()
)

# Enough words to know German, in which every noun has a capital.
GERMAN = frozenset(
    """
    der die das den dem des ein eine einen einem einer eines und oder aber nicht ist sind war waren wird werden wurde haben
    hat hatte ich du er sie es wir ihr mich dich sich uns mit von zu zum zur bei nach aus auf an im in f\u00fcr \u00fcber unter
    wenn weil dass als auch noch nur schon sehr wie was wer wo mein meine dein seine
    """.split()
)
