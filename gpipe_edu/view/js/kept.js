// What every focusable element carries: without it JupyterLab and Notebook 7 take the keys for themselves.

export const KEPT = 'data-lm-suppress-shortcuts="true"';
