"""The course's pages and its lab in a browser, as a folder that any server of files can hand out: `make site`."""
