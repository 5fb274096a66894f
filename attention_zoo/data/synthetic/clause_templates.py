"""Clause templates of the generated corpus `dates`, in four languages.

A template has the same meaning in all languages, with its slot where the language requires it. No
two templates have the same meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

from attention_zoo.data.synthetic.slots import Date, Quantity, RelativeTime, Slot, Time

# The separator of clauses, and the end of the sentence.
PUNCTUATION = {"en": ("; ", "."), "fr": (" ; ", "."), "de": ("; ", "."), "zh": ("；", "。")}


@dataclass(frozen=True)
class ClauseTemplate:
    """A clause with a slot: `{0}` in a text is replaced by the slot's text in that language."""

    slot: Slot
    texts: dict[str, str]


def _make_template(slot: Slot, en: str, fr: str, de: str, zh: str) -> ClauseTemplate:
    return ClauseTemplate(slot, {"en": en, "fr": fr, "de": de, "zh": zh})


_DATE, _TIME = Date(), Time()
_DISTANCE = Quantity(("length-kilometer", "length-mile"), 99)
_LENGTH = Quantity(("length-meter", "length-centimeter"), 99)
_MASS = Quantity(("mass-kilogram", "mass-gram"), 99)
_VOLUME = Quantity(("volume-liter",), 99)
_SHORT_DURATION = Quantity(("duration-hour", "duration-minute"), 99)
_LONG_DURATION = Quantity(("duration-day", "duration-week", "duration-month", "duration-year"), 99)
_TEMPERATURE = Quantity(("temperature-celsius",), 99)
_FUTURE, _PAST = RelativeTime(True, 99), RelativeTime(False, 99)

CLAUSE_TEMPLATES: tuple[ClauseTemplate, ...] = (
    _make_template(
        _DATE,
        "school starts on {0}",
        "l'école commence le {0}",
        "die Schule beginnt am {0}",
        "学校{0}开学",
    ),
    _make_template(
        _DATE, "they arrive on {0}", "ils arrivent le {0}", "sie kommen am {0} an", "他们{0}到达"
    ),
    _make_template(
        _DATE,
        "we marry on {0}",
        "nous nous marions le {0}",
        "wir heiraten am {0}",
        "我们{0}结婚",
    ),
    _make_template(
        _DATE,
        "she was born on {0}",
        "elle est née le {0}",
        "sie wurde am {0} geboren",
        "她生于{0}",
    ),
    _make_template(
        _DATE,
        "Anna moved on {0}",
        "Anna a déménagé le {0}",
        "Anna zog am {0} um",
        "安娜{0}搬了家",
    ),
    _make_template(
        _DATE,
        "exams end on {0}",
        "les examens finissent le {0}",
        "die Prüfungen enden am {0}",
        "考试{0}结束",
    ),
    _make_template(
        _TIME,
        "trains leave at {0}",
        "les trains partent à {0}",
        "Züge fahren um {0} Uhr ab",
        "火车{0}出发",
    ),
    _make_template(
        _TIME,
        "shops open at {0}",
        "les magasins ouvrent à {0}",
        "um {0} Uhr öffnen die Läden",
        "商店{0}开门",
    ),
    _make_template(
        _TIME,
        "dinner is at {0}",
        "le dîner est à {0}",
        "das Abendessen ist um {0} Uhr",
        "晚餐在{0}",
    ),
    _make_template(
        _TIME, "at {0} I return", "je rentre à {0}", "ich komme um {0} Uhr zurück", "我{0}回来"
    ),
    _make_template(
        _TIME,
        "Paul called at {0}",
        "Paul a appelé à {0}",
        "Paul rief um {0} Uhr an",
        "保罗{0}来过电话",
    ),
    _make_template(
        _DISTANCE, "Rome is {0} away", "Rome est à {0}", "Rom ist {0} entfernt", "罗马在{0}外"
    ),
    _make_template(
        _DISTANCE, "Maria runs {0}", "Maria court {0}", "Maria läuft {0}", "玛丽亚跑{0}"
    ),
    _make_template(
        _LENGTH,
        "the rope is {0} long",
        "la corde mesure {0}",
        "das Seil ist {0} lang",
        "绳子长{0}",
    ),
    _make_template(_MASS, "it weighs {0}", "cela pèse {0}", "es wiegt {0}", "它重{0}"),
    _make_template(
        _VOLUME,
        "tanks hold {0}",
        "les réservoirs contiennent {0}",
        "Tanks fassen {0}",
        "水箱装{0}",
    ),
    _make_template(
        _SHORT_DURATION, "he slept for {0}", "il a dormi {0}", "er hat {0} geschlafen", "他睡了{0}"
    ),
    _make_template(
        _LONG_DURATION,
        "guests stay for {0}",
        "les invités restent {0}",
        "Gäste bleiben {0}",
        "客人住{0}",
    ),
    _make_template(
        _TEMPERATURE,
        "ovens reach {0}",
        "les fours atteignent {0}",
        "Öfen erreichen {0}",
        "烤箱达到{0}",
    ),
    _make_template(
        _FUTURE, "it will rain {0}", "il pleuvra {0}", "{0} wird es regnen", "{0}会下雨"
    ),
    _make_template(_PAST, "{0} it snowed", "il a neigé {0}", "es hat {0} geschneit", "{0}下过雪"),
    _make_template(
        _PAST,
        "the bus left {0}",
        "le bus est parti {0}",
        "der Bus ist {0} abgefahren",
        "公交车{0}开走了",
    ),
)
