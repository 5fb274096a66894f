"""Clause templates of the generated corpus `dates`, in four languages.

A template has the same meaning in all languages, with its slot where the language requires it. No
two templates have the same meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

from attention_zoo.data.synthetic.slots import Date, Distance, Quantity, Slot, Time

# The separator of clauses, and the end of the sentence.
JOINTS = {"en": ("; ", "."), "fr": (" ; ", "."), "de": ("; ", "."), "zh": ("；", "。")}


@dataclass(frozen=True)
class Carrier:
    """A clause with a slot: `{0}` in a template is replaced by the slot's text in that language."""

    slot: Slot
    templates: dict[str, str]


def _carrier(slot: Slot, en: str, fr: str, de: str, zh: str) -> Carrier:
    return Carrier(slot, {"en": en, "fr": fr, "de": de, "zh": zh})


_DATE, _TIME = Date(), Time()
_WAY = Quantity(("length-kilometer", "length-mile"), 99)
_SPAN = Quantity(("length-meter", "length-centimeter"), 99)
_MASS = Quantity(("mass-kilogram", "mass-gram"), 99)
_VOLUME = Quantity(("volume-liter",), 99)
_WHILE = Quantity(("duration-hour", "duration-minute"), 99)
_STAY = Quantity(("duration-day", "duration-week", "duration-month", "duration-year"), 99)
_HEAT = Quantity(("temperature-celsius",), 99)
_AHEAD, _AGO = Distance(True, 99), Distance(False, 99)

CARRIERS: tuple[Carrier, ...] = (
    _carrier(
        _DATE,
        "school starts on {0}",
        "l'école commence le {0}",
        "die Schule beginnt am {0}",
        "学校{0}开学",
    ),
    _carrier(
        _DATE, "they arrive on {0}", "ils arrivent le {0}", "sie kommen am {0} an", "他们{0}到达"
    ),
    _carrier(
        _DATE,
        "we marry on {0}",
        "nous nous marions le {0}",
        "wir heiraten am {0}",
        "我们{0}结婚",
    ),
    _carrier(
        _DATE,
        "she was born on {0}",
        "elle est née le {0}",
        "sie wurde am {0} geboren",
        "她生于{0}",
    ),
    _carrier(
        _DATE,
        "Anna moved on {0}",
        "Anna a déménagé le {0}",
        "Anna zog am {0} um",
        "安娜{0}搬了家",
    ),
    _carrier(
        _DATE,
        "exams end on {0}",
        "les examens finissent le {0}",
        "die Prüfungen enden am {0}",
        "考试{0}结束",
    ),
    _carrier(
        _TIME,
        "trains leave at {0}",
        "les trains partent à {0}",
        "Züge fahren um {0} Uhr ab",
        "火车{0}出发",
    ),
    _carrier(
        _TIME,
        "shops open at {0}",
        "les magasins ouvrent à {0}",
        "um {0} Uhr öffnen die Läden",
        "商店{0}开门",
    ),
    _carrier(
        _TIME,
        "dinner is at {0}",
        "le dîner est à {0}",
        "das Abendessen ist um {0} Uhr",
        "晚餐在{0}",
    ),
    _carrier(
        _TIME, "at {0} I return", "je rentre à {0}", "ich komme um {0} Uhr zurück", "我{0}回来"
    ),
    _carrier(
        _TIME,
        "Paul called at {0}",
        "Paul a appelé à {0}",
        "Paul rief um {0} Uhr an",
        "保罗{0}来过电话",
    ),
    _carrier(_WAY, "Rome is {0} away", "Rome est à {0}", "Rom ist {0} entfernt", "罗马在{0}外"),
    _carrier(_WAY, "Maria runs {0}", "Maria court {0}", "Maria läuft {0}", "玛丽亚跑{0}"),
    _carrier(
        _SPAN,
        "the rope is {0} long",
        "la corde mesure {0}",
        "das Seil ist {0} lang",
        "绳子长{0}",
    ),
    _carrier(_MASS, "it weighs {0}", "cela pèse {0}", "es wiegt {0}", "它重{0}"),
    _carrier(
        _VOLUME,
        "tanks hold {0}",
        "les réservoirs contiennent {0}",
        "Tanks fassen {0}",
        "水箱装{0}",
    ),
    _carrier(_WHILE, "he slept for {0}", "il a dormi {0}", "er hat {0} geschlafen", "他睡了{0}"),
    _carrier(
        _STAY, "guests stay for {0}", "les invités restent {0}", "Gäste bleiben {0}", "客人住{0}"
    ),
    _carrier(
        _HEAT, "ovens reach {0}", "les fours atteignent {0}", "Öfen erreichen {0}", "烤箱达到{0}"
    ),
    _carrier(_AHEAD, "it will rain {0}", "il pleuvra {0}", "{0} wird es regnen", "{0}会下雨"),
    _carrier(_AGO, "{0} it snowed", "il a neigé {0}", "es hat {0} geschneit", "{0}下过雪"),
    _carrier(
        _AGO,
        "the bus left {0}",
        "le bus est parti {0}",
        "der Bus ist {0} abgefahren",
        "公交车{0}开走了",
    ),
)
