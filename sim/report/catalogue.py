"""Which texts to print."""

from sim.report.chinese import Chinese
from sim.report.english import English
from sim.report.language import CHINESE
from sim.report.names import encodable
from sim.report.texts import Texts


def texts_of(lang: str, encoding: str) -> Texts:
    """The texts of ``lang``, or English where an output of this encoding can't carry them."""
    chinese = Chinese()
    return chinese if lang == CHINESE and encodable(chinese.caveat, encoding) else English()
