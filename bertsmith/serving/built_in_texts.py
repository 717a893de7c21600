"""Texts of 5 to 200 words, for measuring a server when the user gives no texts.

Most are single sentences, such as people type. One in six is a paragraph or a page of sentences.
"""

SENTENCES = (
    "The lighthouse keeper counted ships.",
    "Rain came earlier than anybody had expected this year.",
    "She paid in cash and left without a receipt.",
    "The museum opens at nine, but the garden behind it is open all night.",
    "Bread dough rises faster in a warm kitchen than in a cold one.",
    "Nobody on the train looked up when the lights went out for a moment.",
    "My order arrived two days late, and one of the four cups was broken in the box.",
    "Please send me the invoice for March again.",
    "A good map shows what its maker thought important, and says nothing about the rest.",
    "The film starts slowly, finds its feet after half an hour, and ends with the best chase that "
    "I have seen in a cinema for years.",
    "Copper conducts heat about twice as well as aluminium and some five times as well as iron.",
    "How do I change the address of my account?",
    "The committee met for three hours, agreed that something had to be done about the old bridge, "
    "and then postponed the decision until the engineers had measured the river again in spring.",
    "Swifts sleep while they fly.",
    "In the north of the country, winter evenings begin so early that children walk home from "
    "school with lamps on their coats.",
    "The team lost the first set, won the next two without much trouble, and nearly gave the match "
    "away in the last ten minutes.",
    "Turn off the water before you open the valve.",
    "An old proverb says that a guest sees more in an hour than the host in a year, and every new "
    "employee of a company proves it during the first week.",
    "The battery lasts for a day if the screen is dim, and hardly until lunch if it is bright.",
    "Shares of the shipping company fell by seven percent on Tuesday after it had told investors "
    "that higher fuel prices would cost it most of the profit that it had forecast in autumn.",
    "I would not recommend this hotel to anyone who sleeps lightly.",
    "The recipe asks for a spoon of vinegar, which sounds strange in a cake, but nobody who tried "
    "it could taste it afterwards.",
    "Her grandfather had built the boat from the wood of a single oak, with tools that he had made "
    "himself, and he never sold it, although a collector from the city came every summer and "
    "offered him a little more each time.",
    "Two of the samples were lost in the post.",
    "After the update, the printer prints everything twice, once correctly and once with every "
    "letter replaced by a small square.",
    "The river has moved by almost a kilometre since the first survey, so the border that once ran "
    "along its middle now runs through fields, a school and two kitchens.",
    "Is this seat taken, or may I sit here until the next stop?",
    "Astronomers found the comet on photographs that had been lying in an archive for forty years, "
    "because a student compared them with a program that she had written for something else.",
    "The concert was sold out.",
    "Most people who learn an instrument as adults give up within a year, not because they lack "
    "talent but because they practise the parts that they can play already.",
)


def built_in_texts() -> list[str]:
    """Return the sentences, and longer texts made of neighbouring sentences."""
    pages = [" ".join(SENTENCES[start : start + 4]) for start in range(0, 16, 4)]
    pages += [" ".join(SENTENCES[:10]), " ".join(SENTENCES[12:21])]
    return [*SENTENCES, *pages]
