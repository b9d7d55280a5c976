const stage = document.getElementById("stage"), slides = [...stage.querySelectorAll(".slide")];
let at = Math.min(slides.length, Math.max(1, Number(location.hash.slice(1)) || 1)) - 1;
function fit() {
  const scale = Math.min(innerWidth / 1280, innerHeight / 720);
  stage.style.transform = `scale(${scale}) translate(-50%, -50%)`;
}
function open(slide) { // a chart is made when its slide is first near, and measures itself only where it shows
  for (const frame of slide.querySelectorAll("iframe[data-page]")) {
    const source = document.getElementById(frame.dataset.page);
    frame.addEventListener("load", () => frame.contentWindow.addEventListener("keydown", turned, true));
    frame.srcdoc = JSON.parse(source.textContent);
    delete frame.dataset.page;
  }
}
function show(to) {
  at = Math.min(slides.length - 1, Math.max(0, to));
  slides.forEach((slide, index) => slide.classList.toggle("here", index === at));
  open(slides[at]);
  history.replaceState(null, "", `#${at + 1}`);
}
function on() {
  const slide = slides[at];
  if (slide.dataset.vote !== undefined && !slide.classList.contains("told")) slide.classList.add("told");
  else if (at + 1 < slides.length) { slides[at + 1].classList.remove("told"); show(at + 1); }
}
function back() {
  const slide = slides[at];
  if (slide.classList.contains("told")) slide.classList.remove("told");
  else show(at - 1);
}
function turned(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const inside = event.view !== window; // arrows and blanks belong to the chart there; a clicker's keys do not
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
addEventListener("keydown", turned);
addEventListener("resize", fit);
addEventListener("hashchange", () => show(Number(location.hash.slice(1)) - 1 || 0));
fit();
show(at);
