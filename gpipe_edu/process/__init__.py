"""A function in another process: how it is packed, sent, started, limited and heard, and where it was when time was up.

`child.py` is the process as the one who starts it sees it, `parent.py` the other way round; between them go
`frames.py`. `packing.py` takes a function along, `plain.py` is data that can be read without running anything.
`limits.py` is what a process may take, `time_limit.py` how long it may take (processor time and sleep, so that a busy
machine makes no loop look endless), `stack_on_timeout.py` says where it was when its time was over, `orphans.py` ends
what it has started. `forked.py` starts processes that need load nothing.

`enclosure.py` is where answers run that nobody vouches for: `cage.py` (Landlock by ctypes, because no library for it is
kept up), `unprivileged.py` (another user, in a container), `namespaces.py` (a network and process numbers of its own,
with a /proc of its own, because time limits read there).
"""
