"""Texts that the load's callers send, about a made-up shop and its code."""

from typing import Final

SUPPORT: Final = (
    "You answer customers of Lantern & Pine, a shop for camping gear. Be brief and friendly."
    " Never promise a refund; offer to pass the case on instead."
)
QUESTIONS: Final = (
    "Does the two-person tent stand without pegs?",
    "My parcel says delivered, but it is not here. What now?",
    "Which stove works at minus ten degrees?",
    "Can I change the address of an order from this morning?",
    "How do I wash a down sleeping bag?",
    "Is the blue rucksack coming back?",
    "What is the difference between your two head torches?",
    "Do you ship to islands?",
)
#: What a search finds: title and text, many to choose some from.
PASSAGES: Final = tuple(
    (
        f"{topic}, section {section}",
        f"On {topic.lower()}, section {section}: the rule of the house is that {rule}."
        " It holds for all orders since the spring, whatever the customer was told before."
        f" Exceptions are decided by the team for {topic.lower()} within two working days and are"
        " written into the order, with the reason and the name of whoever decided. " * 2,
    )
    for topic in ("Returns", "Shipping", "Warranty", "Repairs", "Gift cards", "Stock")
    for section, rule in enumerate(
        (
            "items come back in thirty days, dry and clean",
            "a photo of the damage is enough where the price is below fifty",
            "we pay the way back only where the mistake was ours",
            "bulky items are fetched at the door by appointment",
        ),
        start=1,
    )
)
AGENT: Final = (
    "You are a coding agent in the repository of a shop. Work in small steps. Read before you"
    " write. Run the tests after each change. Say what you did in one sentence.\n\n"
    + "\n".join(
        f"Rule {number}: {rule}"
        for number, rule in enumerate(
            (
                "keep functions short",
                "name things by what they are",
                "handle errors where something can be done about them",
                "no new dependency without asking",
                "tests are named by behaviour",
                "money is counted in whole cents",
                "times are aware of their zone",
                "never edit generated files",
            )
            * 6,
            start=1,
        )
    )
)
TASKS: Final = (
    "The basket shows a wrong total when two coupons are used. Find out why and fix it.",
    "Orders above one hundred parcels time out. Make the query cheaper.",
    "Add an endpoint that lists all repairs that are older than a week.",
)
LISTING: Final = "\n".join(
    f"{number:>4}  def step_{number}(basket, coupons):\n"
    f"          total = basket.total() - coupons[{number % 5}].cents\n"
    f"          return max(total, {number})"
    for number in range(1, 41)
)
STORY: Final = "Tell the story of a lighthouse keeper who repairs tents, in six long chapters."
WEATHER: Final = ("Oslo", "Porto", "Graz", "Cork", "Lyon", "Turku")
