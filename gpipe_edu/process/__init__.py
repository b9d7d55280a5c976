"""A function in another process: how it is packed, sent, started, limited, and where it was when its time was up.

`child.py` is the child process as its parent sees it, `parent.py` the parent as the child sees it; `frames.py` are the
messages between them. `packing.py` pickles a function, `plain.py` is data that can be read without running code.
`resource_limits.py` limits a process's memory, threads and files, `time_limit.py` its time (CPU time and sleep, so that
on a busy machine no loop looks endless), `process_count.py` what it may start; `child.py` cuts what it prints.
`stack_on_timeout.py` says where it was when its time was up, `orphans.py` kills what it has started. `fork_server.py`
starts processes that have nothing left to import, `distrusted_files.py` those in which our own code reads files that
nobody has checked.

`enclosure.py` is where untrusted answers run: in a sandbox of `bubblewrap.py`, where `fork_server.py` has loaded all
libraries and `system_calls.py` forbids what mounts and namespaces leave open, or, in a container, as another user
(`unprivileged.py`). `probes.py` tests from inside what is shut off.
"""
