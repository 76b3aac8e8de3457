"""Writes the two PDF files of the demo corpus; the same bytes each time. Run: python tests/corpus/make_pdfs.py"""

from pathlib import Path

from reportlab.lib.pagesizes import A5
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Spacer

RECOATING = """
Recoating the mirror of Aldous

The mirror is recoated every 30 months, in the two weeks around the full moon of May or November. The work takes nine
days and six people. Bea Marchetti leads it; nobody else gives orders in the Barn while the mirror is out of its cell.

The last three coatings were made in November 2025, May 2028 and November 2030. The next one is due in May 2033.

# Taking the mirror out

The telescope is parked at the zenith and bolted. The crane of the dome lifts 2,000 kilograms; mirror and cell weigh
1,480. Before lifting, the crane is tested with the concrete block of 1,600 kilograms that stands behind the Barn.

The mirror travels the 90 metres to the Barn on the trolley with soft tyres, at walking pace, and only in wind below
15 km/h. Two people walk ahead and pick up stones.

# Stripping and washing

The old aluminium is dissolved with a solution of potassium hydroxide and copper sulphate. Gloves, visor and apron are
worn. The solution works for eight minutes and is then rinsed off with 300 litres of distilled water at the
temperature of the glass; a difference of more than 4 degrees can crack the mirror.

Drying is done with lens tissue, one sheet for each stroke, from the centre outwards. A sheet is never used twice.

# Coating

The tank is pumped down to one millionth of a millibar, which takes eleven hours. The filaments then evaporate
aluminium for 40 seconds. The layer is 95 nanometres thick. If it is thinner than 80, it is stripped and made anew.

Fresh aluminium reflects 91 percent of the light at 550 nanometres. Below 89 percent on the first day something went
wrong, usually the washing.

# Putting it back

Collimation takes two nights. The first star is always Vega if it is up, since the old records are of Vega. The dents
of 2003 are photographed each time and compared; they do not grow.
"""

REPORT = """
Annual report for 2030

In 2030 Kestrel Ridge observed on 268 nights. Aldous was open for 1,904 hours and Pip for 2,377. It was the best year
since 2022 and the first in which Pip was open longer than Aldous.

The observatory spent 2.31 million crowns. Salaries took 58 percent of that, energy 17, the road 9, instruments 11,
and everything else the rest.

# Results

Four results stand out. A planet of eleven Earth masses was confirmed around the star Halden 7 with Heron. Two novae
were found by Pip in fields 183 and 191. The spin of the asteroid Brack was measured as 5 hours and 14 minutes. The
textbook value of the distance to the cluster in Lyra was corrected by six percent.

# People

Eleven people work at the observatory, three of them part time. Noor Haddad became the second night technician in
March. Leopold Quist, who had cooked since 2004, retired in June; his recipe for soup is in the safe.

# Money

The university of Port Aldine gave 1.2 million crowns, the island 0.7 million, and the Brack Society 64,000. Visitors
paid 29,870 crowns for tickets. A grant for new dome motors was refused and will be asked for again in 2032.

# Plans

In 2031 the guide camera will be replaced, the steps of the Barn will be heated, and the pointing model will be
measured twice a year and not once. A second robotic telescope, to be called Squeak, is planned for 2034, on the
condition that the mice are under control.
"""


def write(name: str, text: str) -> None:
    """One page for each part; a line that starts with # begins a part."""
    styles = getSampleStyleSheet()
    title, *blocks = [" ".join(block.split()) for block in text.strip().split("\n\n")]
    story = [Paragraph(title, styles["Title"])]
    for block in blocks:
        if block.startswith("# "):
            story += [PageBreak(), Paragraph(block[2:], styles["Heading1"])]
        else:
            story += [Paragraph(block, styles["BodyText"]), Spacer(1, 6)]
    path = Path(__file__).parent / "handbook" / name
    SimpleDocTemplate(str(path), pagesize=A5, title=title, author="Kestrel Ridge", invariant=1).build(story)


if __name__ == "__main__":
    write("mirror-recoating.pdf", RECOATING)
    write("annual-report-2030.pdf", REPORT)
