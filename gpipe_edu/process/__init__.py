"""A function in another process: how it is packed, sent, started afresh, limited and heard, and what it said last.

`child` is the process as the one who starts it sees it, `parent` the other way round; between them go frames of bytes.
"""
