"""What the made-up hospital's notes say about a stay, as data.

A *fact* is told as a clause ("she had missed 3 weeks of lisinopril") or as a noun phrase ("missed
doses of lisinopril"). A *frame* is the sentence around it and decides whether the fact is told as
true of this stay or not: the same clause stands in "There was no doubt that ...", in "There was no
sign that ..." and behind "His brother ...". Frames come in pairs that share their words, and cues
such as "no", "not" and "denied" stand on both sides, so that words alone say little and only
reading a sentence tells. Neutral conditions fill the same frames and carry no risk.

Slots of a clause: ``{N}`` who it is about, ``{P}`` that person's "his" or "her", ``{O}`` "him" or
"her". Slots of a frame: ``{c}`` or ``{C}`` a clause (``{C}`` begins the sentence), ``{a} {b} {d}``
noun phrases, ``{he} {his} {him} {He} {His}`` the patient, ``{kin}`` a relative. All others are
drawn from :data:`FILLINGS`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """Something that a note can say about a stay.

    Attributes:
        name: Short name, unique.
        clauses: Ways to say it as a clause in the past tense.
        nouns: Ways to say it as a noun phrase.
        weight: What it adds to the logit of the risk when true; 0 for a neutral condition.
        rate: Share of stays, 0 to 1, of which it is true.
    """

    name: str
    clauses: tuple[str, ...]
    nouns: tuple[str, ...]
    weight: float = 0.0
    rate: float = 0.5


@dataclass(frozen=True)
class Frame:
    """A sentence around one clause, or around one to three noun phrases.

    Attributes:
        text: The sentence with its slots.
        truths: For each slot in order, whether what stands there is true of this stay.
        elsewhere: It tells of another time or person and leaves open how this stay is.
        of_other: The clause is told of somebody else.
        problems_only: The frame makes no sense around an arrangement such as a booked visit.
        share: How often it is drawn against the others; plain wordings are the usual ones.
    """

    text: str
    truths: tuple[bool, ...]
    elsewhere: bool = False
    of_other: bool = False
    problems_only: bool = False
    share: int = 1


INTERCEPT = -4.2
"""Logit of the 30-day readmission risk of a stay with no fact."""

FACTS = (
    Fact(
        "heart_failure",
        weight=1.85,
        rate=0.28,
        clauses=(
            "{N} was in decompensated heart failure with a BNP of {bnp}",
            "{N} was {kg} kg above {P} dry weight with decompensated heart failure",
            "{N} went into pulmonary edema from heart failure and needed diuresis",
            "{N} was volume overloaded by {kg} kg with worsening heart failure",
            "{N} gained {kg} kg of fluid as {P} heart failure worsened",
            "{N} could not lie flat because of worsening heart failure",
            "{N} had leg edema and volume overload from heart failure",
            "{N} had heart failure with no response to oral diuretics",
        ),
        nouns=(
            "decompensated heart failure",
            "acute on chronic systolic heart failure",
            "heart failure with pulmonary edema",
            "volume overload of {kg} kg from heart failure",
            "worsening heart failure with BNP {bnp}",
            "volume overload not responding to oral diuretics",
        ),
    ),
    Fact(
        "nonadherence",
        weight=1.75,
        rate=0.25,
        clauses=(
            "{N} had not been taking {P} {drug}",
            "{N} had missed {weeks} weeks of {P} {drug}",
            "{N} had missed refills and was not taking {P} {drug}",
            "{N} had stopped taking {P} {drug} without telling anyone",
            "{N} had skipped doses of {drug} because of the cost",
            "{N} was not taking {P} pills as prescribed",
            "{N} had skipped {P} {drug} on {days} days of every week",
            "{N} had missed most of the doses in {P} pill box",
        ),
        nouns=(
            "missed doses of {drug}",
            "poor adherence to {drug}",
            "missed refills of {drug}",
            "skipped doses because of cost",
            "not taking {drug} as prescribed",
            "nonadherence to {drug} for {weeks} weeks",
        ),
    ),
    Fact(
        "no_support",
        weight=1.6,
        rate=0.25,
        clauses=(
            "{N} was living alone and not managing at home",
            "{N} had no one at home to help {O}",
            "{N} lived alone with no one to help with meals or medicines",
            "{N} was alone at home and could not manage {P} meals",
            "{N} had no caregiver at home and could not manage",
            "{N} could not wash or dress alone and had no help at home",
            "{N} lived alone without a caregiver to look after {O}",
            "{N} was neglecting {P} own care while living alone",
        ),
        nouns=(
            "an unsafe home situation with no caregiver",
            "self-neglect while living alone",
            "inability to manage alone at home",
            "living alone with nobody to help",
            "living alone without a caregiver",
            "no one at home to help",
        ),
    ),
    Fact(
        "infection",
        weight=1.85,
        rate=0.24,
        clauses=(
            "{N} had an infected foot wound that was not closing",
            "{N} had an infected sacral wound that was not healing",
            "{N} had a deep wound infection not cleared by antibiotics",
            "{N} had a wound of the {side} foot with persistent infection",
            "{N} was still febrile from an infection that had not cleared",
            "{N} had an infected wound that drained pus in spite of antibiotics",
            "{N} had an abscess with infection that could not be cleared",
            "{N} had an infection that was not cleared after {weeks} weeks of antibiotics",
        ),
        nouns=(
            "an infected wound with purulent drainage",
            "persistent wound infection of the {side} foot",
            "a wound infection not responding to antibiotics",
            "an infected wound not closing after {weeks} weeks",
            "infection not cleared by antibiotics",
            "wound breakdown with infection",
        ),
    ),
    Fact(
        "kidney",
        weight=1.7,
        rate=0.24,
        clauses=(
            "{N} had kidney function that was still worsening",
            "{N} had a creatinine rising to {cr} without renal recovery",
            "{N} had a kidney injury that was not improving",
            "{N} lost more of {P} kidney function, with creatinine up to {cr}",
            "{N} had an acute kidney injury and no renal recovery",
            "{N} had progressive renal failure and was near dialysis",
            "{N} had worsening renal failure with a creatinine of {cr}",
            "{N} had worsening kidney function, not explained by dehydration",
        ),
        nouns=(
            "worsening renal function with creatinine {cr}",
            "acute kidney injury without recovery",
            "progressive renal failure",
            "a creatinine rising to {cr}",
            "worsening kidney function without recovery",
            "kidney injury on top of chronic kidney disease",
        ),
    ),
    Fact(
        "alcohol",
        weight=1.75,
        rate=0.22,
        clauses=(
            "{N} was drinking alcohol daily and went into withdrawal",
            "{N} was in alcohol withdrawal and needed {mg} mg of diazepam",
            "{N} had been drinking alcohol heavily up to the day of admission",
            "{N} had not stopped drinking alcohol and had withdrawal tremor",
            "{N} was drinking {beers} beers every morning against alcohol withdrawal",
            "{N} had an alcohol withdrawal seizure on day 2",
            "{N} was in alcohol withdrawal and not willing to stop drinking",
            "{N} was drinking {beers} cans of strong beer a day",
        ),
        nouns=(
            "alcohol withdrawal requiring {mg} mg of diazepam",
            "active heavy drinking of alcohol",
            "alcohol withdrawal with tremor",
            "relapse to daily drinking",
            "a withdrawal seizure from alcohol",
            "ongoing drinking of alcohol with no intent to stop",
        ),
    ),
    Fact(
        "falls",
        weight=1.6,
        rate=0.25,
        clauses=(
            "{N} had fallen {falls} times and was unsteady on {P} feet",
            "{N} was too unsteady to walk without falling",
            "{N} had an unsteady gait and fell on the ward",
            "{N} could not stand without swaying and had repeated falls",
            "{N} had {falls} falls in a month with poor balance",
            "{N} had repeated falls and no safe gait, even with a walker",
            "{N} had repeated falls at home and could not get up",
            "{N} had an unsteady gait with repeated falls",
        ),
        nouns=(
            "recurrent falls with unsteady gait",
            "gait instability and repeated falls",
            "{falls} falls within a month",
            "falls on the ward from poor balance",
            "unsteady gait even with a walker",
            "inability to walk without falling",
        ),
    ),
    Fact(
        "follow_up",
        weight=-1.75,
        rate=0.45,
        clauses=(
            "{N} had a clinic visit booked within {days} days and a nurse coming to the home",
            "{N} had a clinic visit booked for the coming week with transport",
            "{N} was booked for daily nurse calls and an early clinic visit",
            "{N} had a visiting nurse booked and an early clinic visit",
            "{N} was booked for a transition clinic visit within {days} days",
            "{N} had a clinic visit booked in {days} days and a nurse to check on {O}",
            "{N} had a home health nurse booked for the day after discharge",
            "{N} had a pharmacist visit and an early clinic visit booked",
        ),
        nouns=(
            "an early clinic visit with a visiting nurse",
            "a clinic visit booked within {days} days",
            "booked daily nurse calls",
            "a booked transition clinic visit",
            "an early clinic visit booked with transport",
            "a home health nurse booked within {days} days",
        ),
    ),
)
"""The facts that a stay's risk depends on; nothing else counts."""

NEUTRAL = (
    Fact(
        "atrial_fibrillation",
        (
            "{N} was in atrial fibrillation with a rate of {rate}",
            "{N} had a run of atrial fibrillation on telemetry",
        ),
        ("paroxysmal atrial fibrillation", "atrial fibrillation with a rate of {rate}"),
    ),
    Fact(
        "anemia",
        (
            "{N} had iron deficiency anemia with a ferritin of {ferritin}",
            "{N} was transfused 2 units for anemia",
        ),
        ("iron deficiency anemia", "anemia with a ferritin of {ferritin}"),
    ),
    Fact(
        "gout",
        (
            "{N} had a gout flare in the {side} great toe",
            "{N} was treated with colchicine for gout",
        ),
        ("a gout flare in the {side} great toe", "acute gout requiring colchicine"),
    ),
    Fact(
        "constipation",
        ("{N} had not moved {P} bowels for {few} days", "{N} was impacted and needed enemas"),
        ("constipation for {few} days", "fecal impaction requiring enemas"),
    ),
    Fact(
        "retention",
        (
            "{N} was retaining urine because of an enlarged bladder neck",
            "{N} could not void and needed a straight catheter",
        ),
        ("urinary retention requiring a catheter", "failure of a voiding trial"),
    ),
    Fact(
        "potassium",
        ("{N} had a low potassium that needed repletion", "{N} had no reserve of potassium left"),
        ("hypokalemia requiring repletion", "a potassium not held by oral tablets"),
    ),
    Fact(
        "shingles",
        ("{N} had shingles over the {side} flank", "{N} had a blistering rash of the {side} chest"),
        ("shingles over the {side} flank", "a zoster rash of the {side} chest"),
    ),
    Fact(
        "gallstones",
        (
            "{N} had gallstones without a blocked duct",
            "{N} had biliary colic after fatty meals",
        ),
        ("gallstones without a blocked duct", "biliary colic after fatty meals"),
    ),
    Fact(
        "sleep_apnea",
        (
            "{N} had sleep apnea and did not tolerate the mask",
            "{N} stopped breathing {few} times an hour in {P} sleep",
        ),
        ("obstructive sleep apnea", "sleep apnea with {few} pauses an hour"),
    ),
    Fact(
        "nosebleed",
        ("{N} had a nosebleed that needed packing", "{N} bled from the {side} nostril"),
        ("a nosebleed requiring packing", "bleeding from the {side} nostril"),
    ),
)
"""Conditions told in the same frames that have no bearing on the risk."""

CLAUSE_FRAMES = (
    Frame("{C}.", (True,), share=14),
    Frame("It became clear that {c}.", (True,)),
    Frame("{His} {kin} confirmed that {c}.", (True,)),
    Frame("{He} told the team that {c}.", (True,)),
    Frame("There was no doubt that {c}.", (True,)),
    Frame("{He} denied it at first, but {c}.", (True,)),
    Frame("It was feared that {c}, and this was the case.", (True,), problems_only=True),
    Frame("The referral stated that {c}, which proved correct.", (True,)),
    Frame("The team asked whether {c}, and the answer was yes.", (True,)),
    Frame("There was no sign that {c}.", (False,), share=7),
    Frame("{His} {kin} confirmed that it was not true that {c}.", (False,)),
    Frame("{He} denied that {c}, and the record bears this out.", (False,), share=4),
    Frame("It was feared that {c}, but this was not the case.", (False,), problems_only=True),
    Frame("The referral stated that {c}, which proved an error.", (False,)),
    Frame("The team asked whether {c}, and the answer was no.", (False,)),
    Frame("{C}.", (False,), elsewhere=True, of_other=True),
    Frame("It became clear that {c}.", (False,), elsewhere=True, of_other=True),
    Frame("{He} told the team that {c}.", (False,), elsewhere=True, of_other=True),
    Frame("Years ago {c}, long resolved.", (False,), elsewhere=True, problems_only=True),
)
"""Frames around one clause."""

NOUN_FRAMES = (
    Frame("This stay was notable for {a}.", (True,), share=6),
    Frame("This stay was notable for {a} and {b}.", (True, True), share=6),
    Frame("The team looked for {a}, and this was found.", (True,)),
    Frame("Not known before, but present this stay: {a}.", (True,)),
    Frame("The history of this stay includes {a}.", (True,)),
    Frame("The team found {a}, but no evidence of {b}.", (True, False)),
    Frame("The team found {a}, with no evidence of {b} or {d}.", (True, False, False)),
    Frame("The team found no evidence of {a}, but did find {b}.", (False, True)),
    Frame("There was no evidence of {a} or {b}; the team did find {d}.", (False, False, True)),
    Frame("There was no evidence of {a}.", (False,), share=6),
    Frame("There was no evidence of {a} or {b}.", (False, False), share=6),
    Frame("There was no evidence of {a}, {b} or {d}.", (False, False, False)),
    Frame("The team looked for {a}, and this was not found.", (False,)),
    Frame("Known before, but not present this stay: {a}.", (False,), problems_only=True),
    Frame("The history of {his} {kin} includes {a}.", (False,), elsewhere=True, problems_only=True),
    Frame("{He} is to call in the event of {a}.", (False,), elsewhere=True, problems_only=True),
)
"""Frames around one to three noun phrases."""

KIN = {
    "his": ("brother", "father", "son", "grandson", "roommate"),
    "her": ("sister", "mother", "daughter", "granddaughter", "niece"),
}
"""People around the patient, by their own possessive pronoun."""

FILLINGS: dict[str, tuple[str, ...]] = {
    "bnp": ("870", "1,240", "1,865", "2,310", "3,480", "5,120"),
    "kg": ("4", "5", "6", "7", "8", "10", "12"),
    "few": ("2", "3", "4", "5", "6"),
    "weeks": ("2", "3", "4", "5", "6"),
    "days": ("2", "3", "4", "5"),
    "falls": ("3", "4", "5", "6"),
    "beers": ("6", "8", "10", "12"),
    "drug": (
        "furosemide",
        "lisinopril",
        "metoprolol",
        "insulin",
        "apixaban",
        "carvedilol",
        "spironolactone",
        "prednisone",
        "levetiracetam",
        "tacrolimus",
    ),
    "side": ("left", "right"),
    "cr": ("2.6", "2.9", "3.1", "3.4", "3.8", "4.2"),
    "mg": ("20", "40", "60", "80"),
    "rate": ("118", "126", "134", "142"),
    "ferritin": ("6", "8", "9", "11"),
}
"""What a phrase's other slots are filled with; one value holds for all notes of a stay."""
