"""A class: hand-ins, answers cut out and judged, marks, pages; slides; and the making of new exercises."""
