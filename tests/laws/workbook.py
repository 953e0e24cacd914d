"""Excel files as tests need them, written by hand: the few lines of XML that a sheet is."""

import datetime
import zipfile
from xml.sax.saxutils import escape

DAY, MOMENT, HOURS, ERROR, FORMULA = "day", "moment", "hours", "error", "formula"
_STYLES = {DAY: 1, MOMENT: 2, HOURS: 3}
_TYPES = """<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">
<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
<Default Extension="xml" ContentType="application/xml"/>
<Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>
</Types>"""  # noqa: E501
_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_FORMATS = f"""<styleSheet xmlns="{_MAIN}"><numFmts count="1"><numFmt numFmtId="164" formatCode="[h]:mm"/></numFmts>
<cellXfs count="4"><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="22"/><xf numFmtId="164"/></cellXfs>
</styleSheet>"""


def write(path, rows, sheet="Stays", others=(), merged=""):
    """Write rows of cells: None, text, numbers, truth values, dates, or (kind, text) for what Excel alone has."""
    names = [sheet, *others]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", _TYPES)
        archive.writestr("_rels/.rels", _relations([("officeDocument", "xl/workbook.xml")]))
        parts = [("worksheet", f"worksheets/sheet{number + 1}.xml") for number in range(len(names))]
        archive.writestr("xl/_rels/workbook.xml.rels", _relations([*parts, ("styles", "styles.xml")]))
        listed = "".join(
            f'<sheet name="{escape(name)}" sheetId="{number}" r:id="r{number}"/>'
            for number, name in enumerate(names, 1)
        )
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{_MAIN}" xmlns:r="{_RELATIONS}"><sheets>{listed}</sheets></workbook>',
        )
        archive.writestr("xl/styles.xml", _FORMATS)
        for number in range(len(names)):
            body = "".join(map(_row, range(1, len(rows) + 1), rows)) if number == 0 else ""
            merge = f'<mergeCells><mergeCell ref="{merged}"/></mergeCells>' if merged and number == 0 else ""
            text = f'<worksheet xmlns="{_MAIN}"><sheetData>{body}</sheetData>{merge}</worksheet>'
            archive.writestr(f"xl/worksheets/sheet{number + 1}.xml", text)
    return path


def _relations(parts):
    lines = "".join(
        f'<Relationship Id="r{number}" Type="{_RELATIONS}/{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(parts, 1)
    )
    return (
        f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{lines}</Relationships>'
    )


def _row(number, cells):
    return f'<row r="{number}">{"".join(_cell(f"{_letters(at)}{number}", cell) for at, cell in enumerate(cells))}</row>'


def _letters(at):
    return (chr(ord("A") + at // 26 - 1) if at >= 26 else "") + chr(ord("A") + at % 26)


def _cell(at, cell):
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return f'<c r="{at}" t="b"><v>{int(cell)}</v></c>'
    if isinstance(cell, str):
        return f'<c r="{at}" t="inlineStr"><is><t xml:space="preserve">{escape(cell)}</t></is></c>'
    if isinstance(cell, datetime.datetime):
        return _cell(at, (MOMENT, repr((cell - datetime.datetime(1899, 12, 30)) / datetime.timedelta(days=1))))
    if isinstance(cell, datetime.date):
        return _cell(at, (DAY, str((cell - datetime.date(1899, 12, 30)).days)))
    if isinstance(cell, tuple):
        kind, text = cell
        if kind == ERROR:
            return f'<c r="{at}" t="e"><v>{text}</v></c>'
        if kind == FORMULA:
            formula, value = text
            return f'<c r="{at}"><f>{formula}</f>{"" if value is None else f"<v>{value}</v>"}</c>'
        return f'<c r="{at}" s="{_STYLES[kind]}"><v>{text}</v></c>'
    return f'<c r="{at}"><v>{cell!r}</v></c>'
