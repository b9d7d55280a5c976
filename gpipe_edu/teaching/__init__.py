"""A class: hand-ins, answers cut out and judged, marks, pages; slides; and making new exercises."""
