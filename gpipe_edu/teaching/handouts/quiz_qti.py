"""The predictions as a quiz for Canvas, which reads no GIFT: a QTI 1.2 archive, of the parts that Canvas' own export
of a quiz has.

Options are shuffled by Canvas, which is asked to in its own settings file. The explanation of an option is its
feedback.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from markdown_it import MarkdownIt

from gpipe_edu.course.predictions import question
from gpipe_edu.course.predictions.choice import Choice

from .kit import entry

_QUIZ: Final = "gpipe_edu_quiz"
_META: Final = f"{_QUIZ}_meta"
_PACKAGE: Final = "http://www.imsglobal.org/xsd/imsccv1p1/imscp_v1p1"
_QTI: Final = "http://www.imsglobal.org/xsd/ims_qtiasiv1p2"
_CANVAS: Final = "http://canvas.instructure.com/xsd/cccv1p0"
_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False}).enable("table")


def qti(wanted: Sequence[str], title: str) -> bytes:
    """The quiz as an archive. Raises ValueError for a prediction that does not exist."""
    files = {
        "imsmanifest.xml": _manifest(),
        f"{_QUIZ}/{_QUIZ}.xml": _assessment([question.find(key) for key in wanted], wanted, title),
        f"{_QUIZ}/assessment_meta.xml": _settings(len(wanted), title),
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, root in files.items():
            archive.writestr(entry(name), tostring(root, encoding="utf-8", xml_declaration=True))
    return packed.getvalue()


def _add(to: Element, path: str, text: str = "", **attributes: str) -> Element:
    """The last of nested elements, "presentation/material", with its text and attributes."""
    for name in path.split("/"):
        to = SubElement(to, name)
    to.attrib.update(attributes)
    to.text = text or None
    return to


def _manifest() -> Element:
    root = Element("manifest", identifier=f"{_QUIZ}_manifest", xmlns=_PACKAGE)
    about = _add(root, "metadata")
    _add(about, "schema", "IMS Content")
    _add(about, "schemaversion", "1.1.3")
    _add(root, "organizations")
    resources = _add(root, "resources")
    quiz = _add(resources, "resource", identifier=_QUIZ, type="imsqti_xmlv1p2")
    _add(quiz, "file", href=f"{_QUIZ}/{_QUIZ}.xml")
    _add(quiz, "dependency", identifierref=_META)
    kind, at = "associatedcontent/imscc_xmlv1p1/learning-application-resource", f"{_QUIZ}/assessment_meta.xml"
    _add(_add(resources, "resource", identifier=_META, type=kind, href=at), "file", href=at)
    return root


def _settings(count: int, title: str) -> Element:
    root = Element("quiz", identifier=_QUIZ, xmlns=_CANVAS)
    _add(root, "title", title)
    _add(root, "shuffle_answers", "true")
    _add(root, "quiz_type", "assignment")
    _add(root, "points_possible", str(count))
    return root


def _assessment(questions: Sequence[Choice], keys: Sequence[str], title: str) -> Element:
    root = Element("questestinterop", xmlns=_QTI)
    section = _add(_add(root, "assessment", ident=_QUIZ, title=title), "section", ident="root_section")
    for number, (asked, key) in enumerate(zip(questions, keys, strict=True)):
        _item(_add(section, "item", ident=f"{_QUIZ}_{number}", title=key), asked, f"q{number}")
    return root


def _item(item: Element, asked: Choice, mark: str) -> None:
    """mark: what begins the names of its options, which are unlike those of any other question."""
    ids = {name: f"{mark}_{name}" for name in asked.options}
    about = _add(item, "itemmetadata/qtimetadata")
    for label, value in (("question_type", "multiple_choice_question"), ("points_possible", "1")):
        field = _add(about, "qtimetadatafield")
        _add(field, "fieldlabel", label)
        _add(field, "fieldentry", value)
    shown = _add(item, "presentation")
    _text(_add(shown, "material"), asked.text)
    options = _add(_add(shown, "response_lid", ident="response1", rcardinality="Single"), "render_choice")
    for name, text in asked.options.items():
        _text(_add(options, "response_label/material"), text)
        options[-1].set("ident", ids[name])
    _marking(_add(item, "resprocessing"), ids, ids[asked.answer])
    for name, ident in ids.items():
        feedback = _add(item, "itemfeedback", ident=f"{ident}_fb")
        _text(_add(feedback, "flow_mat/material"), asked.wrong.get(name, asked.because))


def _marking(marking: Element, ids: Mapping[str, str], right: str) -> None:
    """What is told of each option, and then the points of the right one: after these nothing more is looked at."""
    _add(marking, "outcomes/decvar", maxvalue="100", minvalue="0", varname="SCORE", vartype="Decimal")
    for ident in ids.values():
        told = _add(marking, "respcondition")
        told.set("continue", "Yes")
        _add(told, "conditionvar/varequal", ident, respident="response1")
        _add(told, "displayfeedback", feedbacktype="Response", linkrefid=f"{ident}_fb")
    earned = _add(marking, "respcondition")
    earned.set("continue", "No")
    _add(earned, "conditionvar/varequal", right, respident="response1")
    _add(earned, "setvar", "100", action="Set", varname="SCORE")


def _text(material: Element, markdown: str) -> None:
    _add(material, "mattext", _MARKDOWN.render(markdown.strip()), texttype="text/html")
