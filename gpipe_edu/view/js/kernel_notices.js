// What every focusable element carries: without it JupyterLab and Notebook 7 take the keys for themselves. And what is
// said when the kernel keeps silent.

export const KEPT = 'data-lm-suppress-shortcuts="true"';

export const PATIENCE = 3000; // milliseconds after which a page says why nothing happens
export const LOST = "The kernel was restarted or has stopped, so nobody answers: run this cell again.";
export const SILENT =
  "No reply from the kernel yet. If another cell runs, the answer comes when that is done. If the kernel was restarted, run this cell again.";
