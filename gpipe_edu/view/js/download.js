// A file for the reader.

/** Hand a file to the browser, which saves it where its reader's files go. content: text or bytes. */
export function download(document, name, media, content) {
  const address = URL.createObjectURL(new Blob([content], { type: media }));
  Object.assign(document.createElement("a"), { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
