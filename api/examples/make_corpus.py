#!/usr/bin/env python3
"""Writes corpus.txt: the log of an invented voyage, from a small grammar. The text is always the same.

usage: make_corpus.py > corpus.txt
"""

import random
import re

BYTES = 160_000

# "<name>" stands for one of the choices of that name. A choice that is listed twice is twice as likely.
GRAMMAR = {
    "entry": ["Day {day}. <weather> <event> <event> <rest>", "Day {day}. <weather> <event> <talk> <rest>",
              "Day {day}. <event> <weather> <talk> <event> <rest>"],
    "weather": ["The wind <wind> from the <side>, and the sea <sea>.", "<When> the sky <sky>, and the wind <wind>.",
                "Fog all day; nobody saw the <thing>.", "A <kind> <time>, with <little> wind from the <side>."],
    "wind": ["came", "blew hard", "turned and came", "blew softly", "went round and blew"],
    "side": ["north", "south", "east", "west", "north and west", "south and east"],
    "sea": ["was calm", "rose slowly", "ran high", "was grey and cold", "lay as flat as a table"],
    "sky": ["cleared", "was full of birds", "turned red", "was dark", "held no cloud"],
    "time": ["morning", "night", "evening", "day"],
    "When": ["At noon", "At dawn", "Before dark", "In the night", "After the rain"],
    "little": ["little", "no", "a steady", "some"],
    "event": ["We <did> the <thing>.", "The <person> <did> the <thing> and <did> the <thing>.",
              "<When> the <person> <did> the <thing>.", "The <person> found the <thing> <where>.",
              "We lost <number> of the <things>, and the <person> <did> the <thing>.",
              "The <person> told us of a <kind> island <where>."],
    "did": ["mended", "painted", "lost", "carried", "cleaned", "tied", "counted", "lowered", "raised"],
    "person": ["captain", "cook", "carpenter", "sailmaker", "boy", "old sailor", "mate", "doctor"],
    "thing": ["anchor", "sail", "rope", "lamp", "small boat", "cleat", "chart", "water cask", "mast", "bell"],
    "things": ["ropes", "barrels", "lamps", "hens", "charts", "oars"],
    "number": ["two", "three", "four", "seven", "twelve"],
    "where": ["under the deck", "behind the stove", "to the <side>", "near the <thing>", "beyond the reef"],
    "kind": ["green", "quiet", "cold", "small", "strange", "bright", "long"],
    "talk": ['"Make fast the <thing>," said the <person>, "or we shall lose it."',
             '"Who <did> the <thing>?" asked the <person>. "The <person>," said the <person>.',
             '"It will be a <kind> <time>," said the <person>, and <truth>.'],
    "truth": ["it was", "it was not", "nobody answered", "we all laughed", "the <person> shook his head"],
    "rest": ["We made {miles} miles.", "We made {miles} miles, and all is well.", "All is well.",
             "The <person> kept the watch.", "At night we wrote it all down, so that nothing is lost."],
}


def expand(choice, rng):
    """Returns the choice with every <name> in it replaced."""
    return re.sub(r"<(\w+)>", lambda match: expand(rng.choice(GRAMMAR[match.group(1)]), rng), choice)


def corpus():
    rng = random.Random(17)
    entries = []
    size = 0
    while size < BYTES:
        entry = expand("<entry>", rng).format(day=len(entries) + 1, miles=rng.randrange(9, 120))
        entries.append(entry + "\n")
        size += len(entries[-1])
    return "".join(entries)


if __name__ == "__main__":
    print(corpus(), end="")
