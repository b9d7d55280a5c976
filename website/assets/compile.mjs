// node compile.mjs pyodide.mjs '[{"from": "a.whl", "to": "b.whl", "sources": false}, ...]' 'left/out/'
// writes each archive of Python modules anew, with bytecode in place of its sources or beside them, without what is left out.
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [pyodide, tasks, leftOut] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(pyodide));
const python = await loadPyodide();
python.runPython(`
import copy
import importlib.util
import io
import marshal
import re
import zipfile

UNCHECKED = (1).to_bytes(4, "little")  # by hash, which is not compared: files in a browser have no dates worth comparing


def bytecode(source, path):
    code = compile(source, path, "exec", dont_inherit=True)
    return importlib.util.MAGIC_NUMBER + UNCHECKED + importlib.util.source_hash(source) + marshal.dumps(code)


def compiled(archive, root, sources, left_out):
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive.to_py())) as before, zipfile.ZipFile(made, "w") as after:
        for entry in before.infolist():
            name, content = entry.filename, before.read(entry)
            if re.match(left_out, name):
                continue
            entry.compress_type = zipfile.ZIP_DEFLATED
            module = name.endswith(".py")
            if sources or not module:
                after.writestr(entry, content, compresslevel=9)
            if module:
                entry = copy.copy(entry)
                entry.filename = importlib.util.cache_from_source(name) if sources else name + "c"
                after.writestr(entry, bytecode(content, f"{root}/{name}"), compresslevel=9)
    return made.getvalue()
`);
const compiled = python.globals.get("compiled");
for (const { from, to, sources } of JSON.parse(tasks)) {
  const root = from.endsWith(".whl") ? "/lib/python3.14/site-packages" : "/lib/python314.zip";
  writeFileSync(to, compiled(new Uint8Array(readFileSync(from)), root, sources, leftOut).toJs());
}
