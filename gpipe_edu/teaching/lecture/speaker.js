// The speaker's window: this file again, opened with ?notes by the key S. It shows what the wall does not; its keys
// turn the slides on the wall, which reports where it is.
{
  const slides = [...document.querySelectorAll(".slide")];
  if (location.search === "?notes") speak(window.opener);
  else serve();

  function serve() {
    let notes = null, state = { at: 0, told: false };
    addEventListener("turned", ({ detail }) => {
      state = detail;
      notes?.postMessage(state, "*"); // neither of two files has an origin to name
    });
    addEventListener("keydown", (event) => {
      if (event.key === "s" && !event.ctrlKey && !event.altKey && !event.metaKey)
        notes = open(`${location.href.split(/[?#]/)[0]}?notes`, "gpipe_edu_notes", "width=1100,height=700");
    });
    addEventListener("message", ({ source, data }) => {
      if (!notes || source !== notes) return;
      if (data.key) dispatchEvent(new KeyboardEvent("keydown", { key: data.key, cancelable: true }));
      else notes.postMessage(state, "*");
    });
  }

  function speak(wall) {
    document.documentElement.classList.add("speaker");
    const part = (name) => document.querySelector(`#desk .${name}`);
    const minutes = Number(document.body.dataset.minutes);
    let begun = Date.now();
    part("clock").addEventListener("click", () => {
      begun = Date.now();
      tick();
    });
    addEventListener("message", ({ source, data }) => {
      if (source === wall) turn(data);
    });
    addEventListener("keydown", (event) => {
      const on = ["PageDown", "ArrowRight", "ArrowDown"].includes(event.key);
      if (!on && !["PageUp", "ArrowLeft", "ArrowUp"].includes(event.key)) return;
      event.preventDefault();
      wall?.postMessage({ key: on ? "PageDown" : "PageUp" }, "*");
    });
    setInterval(tick, 500);
    tick();
    if (wall) wall.postMessage({}, "*");
    else part("place").textContent = "Open the slides, and press S there.";

    function tick() {
      const seconds = Math.floor((Date.now() - begun) / 1000);
      part("clock").textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")} of ${minutes} min`;
      part("clock").classList.toggle("late", seconds > 60 * minutes);
    }
    function turn({ at, told }) {
      const slide = slides[at], vote = slide.dataset.vote !== undefined;
      part("place").textContent = `${at + 1} of ${slides.length}: ${slide.querySelector("h1, h2").textContent}`;
      const right = document.createElement("b");
      if (vote) right.textContent = `Right is ${slide.querySelector(".right > b").textContent}.`;
      const words = [...slide.querySelectorAll(".notes, .because")].map((one) => one.cloneNode(true));
      part("words").replaceChildren(right, ...words);
      if (!vote && !words.length) right.textContent = "No notes for this slide.";
      part("next").replaceChildren(preview(vote && !told ? slide : slides[at + 1], vote && !told));
    }
    function preview(slide, told) {
      const twin = slide ? slide.cloneNode(true) : document.createElement("p");
      if (!slide) twin.textContent = "This is the last slide.";
      for (const frame of twin.querySelectorAll("iframe")) frame.remove();
      twin.classList.add("here");
      twin.classList.toggle("told", told);
      return twin;
    }
  }
}
