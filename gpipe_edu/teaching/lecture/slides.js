const stage = document.getElementById("stage"), slides = [...stage.querySelectorAll(".slide")];
const LEAST = 18; // pixels of letters, on a slide of 720
const MOST = 2; // times a chart's size in a notebook
let at = Math.min(slides.length, Math.max(1, Number(location.hash.slice(1)) || 1)) - 1;
function fit() {
  const scale = Math.min(innerWidth / 1280, innerHeight / 720);
  stage.style.transform = `scale(${scale}) translate(-50%, -50%)`;
}
function prepare(slide) { // a chart is made when its slide is first near, and measures itself only where it shows
  for (const frame of slide.querySelectorAll("iframe[data-page]")) {
    const source = document.getElementById(frame.dataset.page);
    frame.addEventListener("load", () => {
      frame.contentWindow.addEventListener("keydown", turned, true);
      fill(frame);
    });
    frame.srcdoc = JSON.parse(source.textContent);
    delete frame.dataset.page;
  }
}
async function fill(frame) { // a chart grows until it fills its slide; its width is the slide's at any zoom
  const root = frame.contentDocument.documentElement;
  const bottom = () => Math.max(...[...root.querySelectorAll(".ge-gantt > *")].map((part) => part.getBoundingClientRect().bottom));
  let fits = 0.5;
  for (let more = MOST, zoom = MOST; more - fits > 0.02; zoom = (fits + more) / 2) {
    await drawn(root, zoom);
    if (bottom() > frame.clientHeight) more = zoom;
    else fits = zoom;
  }
  await drawn(root, fits);
  frame.dataset.filled = "";
}
async function drawn(root, zoom) {
  root.style.zoom = zoom;
  root.style.setProperty("--least", `${LEAST / zoom}px`);
  const frame = () => new Promise(requestAnimationFrame);
  for (let i = 0; i < 600 && !root.querySelector(".ge-base *"); i++) await frame();
  for (let i = 0; i < 3; i++) await frame(); // a chart is laid out anew when its width changes
}
function show(to, told = false) { // told: a vote with its answer
  at = Math.min(slides.length - 1, Math.max(0, to));
  slides.forEach((slide, index) => slide.classList.toggle("here", index === at));
  prepare(slides[at]);
  history.replaceState(null, "", `#${at + 1}`);
  tell(told && slides[at].dataset.vote !== undefined);
}
function tell(told) {
  slides[at].classList.toggle("told", told);
  dispatchEvent(new CustomEvent("turned", { detail: { at, told } }));
}
function on() {
  const slide = slides[at];
  if (slide.dataset.vote !== undefined && !slide.classList.contains("told")) tell(true);
  else if (at + 1 < slides.length) show(at + 1);
}
function back() {
  const slide = slides[at];
  if (slide.classList.contains("told")) tell(false);
  else show(at - 1, true);
}
function turned(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const inside = event.view !== window; // there, arrows and the space bar belong to the chart; a clicker's keys do not
  const key = event.key;
  if (key === "PageDown" || (!inside && ["ArrowRight", "ArrowDown", " ", "Enter"].includes(key))) on();
  else if (key === "PageUp" || (!inside && ["ArrowLeft", "ArrowUp", "Backspace"].includes(key))) back();
  else if (!inside && key === "Home") show(0);
  else if (!inside && key === "End") show(slides.length - 1);
  else if (!inside && key === "f") document.documentElement.requestFullscreen?.();
  else return;
  event.preventDefault();
  event.stopPropagation();
}
if (location.search !== "?notes") { // else it is the speaker's window
  addEventListener("keydown", turned);
  addEventListener("resize", fit);
  addEventListener("hashchange", () => show(Number(location.hash.slice(1)) - 1 || 0));
  fit();
  show(at);
}
