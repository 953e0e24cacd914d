"""Plain words and well-set numbers for people who never read a proof."""

from __future__ import annotations

import math
from collections.abc import Sequence

from threea.anonymize.events import Event, Gaussian, NonPrivate, PartitionSelection, Pure, Sampled
from threea.budget import Adjacency
from threea.certificate import Certificate, ClassShare, Guarantee
from threea.table.schema import Origin

SHORT, LONG = 60, 300
"""Most characters of a foreign text that are shown, and that its tooltip holds."""


def shown(text: str, limit: int = SHORT) -> str:
    """Return a text from outside (a column's name, a category) as it can be shown: printable, and not too long.

    Example:
        >>> shown("ward" + chr(0)), shown("a" * 99, limit=5), shown("")
        ('ward�', 'aaaa…', '(empty)')
    """
    head = text[: limit + 1]
    clean = "".join(_visible(letter) for letter in head).strip()
    if not clean:
        return "(empty)"
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def _visible(letter: str) -> str:
    # The joiners spell words and emoji; other marks of the kind can reverse or hide what stands around them.
    if letter.isprintable() or letter in "\u200c\u200d":
        return letter
    return " " if letter.isspace() else "\ufffd"


def number(value: float) -> str:
    """Return a number with four significant digits.

    Example:
        >>> number(0.5), number(20005.4), number(1234.56), number(3.2e9), number(1e-6), number(math.inf)
        ('0.5', '20,005', '1,235', '3.2e9', '1e-6', '∞')
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "unknown"
    size = abs(value)
    if size == 0:
        return "0"
    if not 1e-3 <= size < 1e8:
        mantissa, exponent = f"{value:.3e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}".replace("-", "−", 1 if value < 0 else 0)
    decimals = max(3 - math.floor(math.log10(size)), 0)
    text = f"{value:,.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")


def percent(share: float) -> str:
    """Return a share of the whole in percent.

    Example:
        >>> percent(0.4567), percent(0.0001), percent(0), percent(1)
        ('45.7%', '<0.1%', '0%', '100%')
    """
    if share in (0, 1):
        return f"{share:.0%}"
    if 0 < share < 0.0005:
        return "<0.1%"
    return ">99.9%" if 0.9995 <= share < 1 else f"{share:.1%}"


def rounded(value: float) -> str:
    """Return a number of rows with two significant digits, or all of a larger one's.

    Example:
        >>> rounded(0.1234), rounded(3.21), rounded(123.4), rounded(54321.0)
        ('0.12', '3.2', '123', '54,321')
    """
    return number(float(f"{value:.2g}") if abs(value) < 100 else round(value))


def chance(probability: float) -> str:
    """Return a small probability as one in so many.

    Example:
        >>> chance(1e-6), chance(0.25)
        ('1 in 1,000,000', '1 in 4')
    """
    return f"1 in {number(1 / probability) if probability < 1e-12 else format(math.floor(1 / probability + 1e-6), ',')}"


def factor(epsilon: float) -> str:
    """Return e to the epsilon.

    Example:
        >>> factor(1.0), factor(20.0), factor(1e9)
        ('2.718', '485,165,195', 'astronomically many')
    """
    if epsilon > 30:
        return "astronomically many"
    return number(math.exp(epsilon)) if epsilon < 18 else f"{math.exp(epsilon):,.0f}"


def best_guess(epsilon: float, delta: float) -> float:
    """Return how often, at most, a guess at even odds is right under (epsilon, delta)-DP (Kairouz et al. 2015).

    Example:
        >>> round(best_guess(1.0, 1e-6), 3)
        0.731
    """
    return min(1.0, 1 - (1 - delta) / (1 + math.exp(min(epsilon, 700.0))))


WEAK_EPSILON, WEAK_DELTA = 10.0, 1e-3
"""Beyond these a guarantee holds and says little: chosen, as the field's usual advice."""


def weakness(epsilon: float, delta: float) -> str:
    """Say in a sentence why a proven guarantee says little; nothing if it says enough.

    Example:
        >>> weakness(1.0, 1e-6), weakness(50.0, 1e-6)
        ('', 'epsilon 50 is above 10: who guesses if someone is in the table may be right up to 100% of the time.')
    """
    reasons = [f"epsilon {number(epsilon)} is above {WEAK_EPSILON:g}"] if epsilon > WEAK_EPSILON else []
    reasons += [f"delta {number(delta)} is above {WEAK_DELTA:g}"] if delta > WEAK_DELTA else []
    if not reasons:
        return ""
    guess = percent(best_guess(epsilon, delta)) if best_guess(epsilon, delta) < 0.9995 else "100%"
    return f"{' and '.join(reasons)}: who guesses if someone is in the table may be right up to {guess} of the time."


def counted(unit_column: str | None) -> str:
    """Say which private rows a noisy count is of: of a person with many, only some count."""
    return "private rows" if unit_column is None else "private rows that count"


def event(happened: Event) -> str:
    """Say what an event was."""
    match happened:
        case Gaussian():
            return "Sums over all rows, with Gaussian noise, or a private choice of the same price"
        case Pure(epsilon=epsilon):
            return f"A private choice, or sums with Laplace noise, each with ε = {number(epsilon)}"
        case Sampled(rate=rate):
            return f"Sums over a random {percent(rate)} of the rows, with Gaussian noise"
        case PartitionSelection(delta=delta):
            return (
                "Values that enough rows share, by counts with Gaussian noise; one held by a single person"
                f" is shown with a chance of at most {chance(delta)}"
            )
        case NonPrivate(reason=reason):
            return f"The rows were handed out: {shown(reason, LONG)}"


def noise_multiplier(happened: Event) -> str:
    """Return an event's noise over the most that one unit can change, where it has such."""
    if isinstance(happened, Gaussian | Sampled | PartitionSelection):
        return number(happened.noise_multiplier)
    return "none" if isinstance(happened, NonPrivate) else "–"


def stands(certificate: Certificate) -> bool:
    """Whether the page may say that the guarantee is proven: it says so, and its events fit the budget."""
    fits = certificate.accounted_epsilon <= certificate.epsilon * (1 + 1e-9)
    return certificate.guarantee is Guarantee.PROVEN and fits


def meaning(certificate: Certificate) -> list[str]:
    """Say what epsilon and delta mean, exactly and without formulas."""
    by_row, replaced = certificate.unit_column is None, certificate.adjacency == Adjacency.REPLACE
    unit = "one row is" if by_row else f"{shown(certificate.unit, LONG)}, are"
    change = "replaced by any other" if replaced else "taken out of the private table, or put in"
    certain = "a certain row" if by_row else "a certain person"
    question = f"which of two versions of {certain} was" if replaced else f"whether {certain} was"
    return [
        f"Suppose {unit} {change}. Whatever someone could conclude from this release becomes more or less likely by at"
        f" most a factor of {factor(certificate.epsilon)} (e to the power ε)"
        + (f", apart from a chance of {chance(certificate.delta)}." if certificate.delta else ", without exception."),
        f"In other words: a coin toss tells {question} in the private table half of the time. With this release in"
        " hand, and any other knowledge besides, no one can tell more than"
        f" {percent(best_guess(certificate.epsilon, certificate.delta))} of the time.",
    ]


def banner(certificate: Certificate) -> tuple[str, str] | None:
    """Return the warning that a release without a standing proof carries: its title, and what it means."""
    if stands(certificate):
        return None
    if certificate.guarantee is Guarantee.CLAIMED:
        return (
            "The privacy of this release is claimed, not proven",
            "It rests on a published method's own accounting. If an assumption below fails, so does the claim.",
        )
    if certificate.guarantee is Guarantee.NONE:
        return (
            "This release has no privacy guarantee",
            "It may reveal private rows. Handle it with the same care as the private table itself.",
        )
    return (
        "The guarantee of this release does not stand",
        f"Its events add up to ε = {number(certificate.accounted_epsilon)}, more than its budget of"
        f" {number(certificate.epsilon)}. Do not pass it on.",
    )


REBALANCED = (
    "Classes were rebalanced: a frequent class is drawn less often than it occurs, so that there are enough rows of the"
    " rare ones to learn from. For the private table's ratio, or for calibrated probabilities, count each row with the"
    " weight of its class."
)
_NOTED = 20
"""How many classes a note lists."""


def rebalanced_note(classes: Sequence[ClassShare]) -> str:
    """Return what a schema says of a target whose classes were rebalanced, line by line.

    Example:
        >>> print(rebalanced_note([ClassShare("no", 0.8, 0.96), ClassShare("yes", 0.2, 0.04)]).splitlines()[-1])
        yes: 20.0% of the synthetic rows, 4.0% of the private ones (noisy); weight 0.2
    """
    lines = [f"{sentence.removesuffix('.')}." for sentence in REBALANCED.split(". ")]
    lines += [
        f"{shown(each.name)}: {percent(each.share)} of the synthetic rows, {percent(each.share_private)} of the private"
        f" ones (noisy); weight {number(each.weight)}"
        for each in classes[:_NOTED]
    ]
    if len(classes) > _NOTED:
        lines.append(f"and {len(classes) - _NOTED:,} more: see certificate.json")
    return "\n".join(lines)


def badge(certificate: Certificate) -> str:
    """Return what the page's badge says, graded by what the guarantee means."""
    if certificate.guarantee is Guarantee.PROVEN and weakness(certificate.epsilon, certificate.delta):
        return "Proven, but weak"
    return BADGES[certificate.guarantee]


BADGES = {
    Guarantee.PROVEN: "Proven",
    Guarantee.CLAIMED: "Claimed, not proven",
    Guarantee.NONE: "No guarantee",
}

ORIGINS = {
    Origin.OWNER: (
        "The owner of the table wrote it.",
        "The owner declared that column names, kinds, ranges and lists of categories are public knowledge. They are"
        " not protected.",
    ),
    Origin.TYPES: (
        "Only the names and types of the columns were used.",
        "Names and types of the columns are taken as public. They are not protected.",
    ),
    Origin.DISCOVERED: (
        "Ranges and categories were found in the private rows under the same guarantee, and paid for from the same"
        " budget. A category that too few rows share was not found, and stands as other.",
        "Names of the columns, and types that the table declares, are taken as public. They are not protected.",
    ),
    Origin.RELEASED: (
        "Ranges and categories were taken from another release, which found them under its own guarantee.",
        "Ranges and categories were found for another release. If it was made from the same rows, its ε and δ come on"
        " top of these.",
    ),
}
"""How a schema was found, and what it leaves unprotected."""


def untouched(names: Sequence[str], columns: int) -> str:
    """Say how many sections of a schema are still as read from the rows; nothing if none is.

    Example:
        >>> untouched(["age", "sex", "ward"], 14)
        '3 of 14 sections of the schema are still as read from the rows; nobody has said where they are public.'
    """
    if not names:
        return ""
    are = "is" if len(names) == 1 else "are"
    said = f"nobody has said where {'it is' if len(names) == 1 else 'they are'} public"
    return f"{len(names)} of {columns} sections of the schema {are} still as read from the rows; {said}."


def formulas(names: Sequence[str]) -> str:
    """Say which columns hold text that a spreadsheet would run, and how to write them so that none does.

    Example:
        >>> formulas(["note"])
        'A spreadsheet would run text in column note as formulas: it begins with =, +, - or @. For people who open the \
rows in one, release them with --format csv --spreadsheet-safe.'
    """
    if not names:
        return ""
    listed = ", ".join(shown(name) for name in names[:_NOTED]) + (", and others" if len(names) > _NOTED else "")
    run = f"A spreadsheet would run text in column{'' if len(names) == 1 else 's'} {listed} as formulas"
    remedy = "For people who open the rows in one, release them with --format csv --spreadsheet-safe."
    return f"{run}: it begins with =, +, - or @. {remedy}"


def origin(certificate: Certificate) -> tuple[str, str]:
    """Return how the schema of a release was found, and what it leaves unprotected."""
    said, names = certificate.schema_origin, certificate.schema_untouched
    if not names:
        return ORIGINS[Origin(said) if said in tuple(Origin) else Origin.RELEASED]
    listed = ", ".join(shown(name) for name in names[:_NOTED]) + (", and others" if len(names) > _NOTED else "")
    one = len(names) == 1
    read = f"{'One section' if one else f'{len(names):,} sections'} of it ({listed}) {'is' if one else 'are'} still as"
    read += f" read from the private rows: nobody has said where {'it is' if one else 'they are'} public."
    return (
        f"The owner of the table confirmed it as public. {read}",
        f"Column names, kinds, ranges and lists of categories are not protected. {read} What was read from the rows may"
        " tell of a single one.",
    )


def caveats(certificate: Certificate) -> list[tuple[str, str]]:
    """Return what is not promised, each with a headline."""
    if not stands(certificate) and certificate.guarantee is not Guarantee.CLAIMED:
        return [("Anything.", "Nothing bounds what this release reveals about anyone in the private table.")]
    found = [("The description of the table.", origin(certificate)[1])]
    if certificate.unit_column is None:
        found.append(
            (
                "Several rows of one person.",
                "Each row is protected by itself. Someone with several is protected less: with k rows, ε is k times as"
                " large, and δ grows more than that.",
            )
        )
    if certificate.adjacency == Adjacency.REPLACE:
        found.append(("The number of rows.", "It is taken as public."))
    if certificate.guarantee is Guarantee.PROVEN:
        found += [("What others wrote.", f"{shown(text, LONG).capitalize()}.") for text in certificate.assumptions]
    return [
        *found,
        (
            "What is true of groups.",
            "That smokers fall ill more often can be learned from this data, as it should, and applies to a smoker who"
            " is not in the table as much as to one who is.",
        ),
        (
            "Other releases.",
            "Every further release from the same rows adds its ε and δ to these.",
        ),
    ]
