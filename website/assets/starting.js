// In the lab: a line at the bottom says what is going on until Python is ready.
(() => {
  const began = Date.now();
  const line = document.createElement("div");
  line.setAttribute("role", "status");
  line.style.cssText =
    "position:fixed;z-index:9999;left:50%;bottom:36px;transform:translateX(-50%);padding:8px 16px;border-radius:4px;font:15px/1.4 sans-serif;background:#0b57a4;color:#fff;max-width:90vw";
  const words = document.createElement("span");
  const close = document.createElement("button");
  close.textContent = "Hide";
  close.style.cssText = "margin-left:12px;font:inherit;color:inherit;background:none;border:1px solid #fff;border-radius:4px;cursor:pointer";
  close.addEventListener("click", () => end());
  line.append(words, close);
  const stages = {
    lab: "JupyterLab is loading",
    python: "Python is starting in your browser: it is fetched once, about 25 MB, and then unpacked",
    slow: "Still starting. You can read on in this notebook meanwhile; cells that you run wait for Python",
  };
  const end = () => {
    clearInterval(timer);
    line.remove();
  };
  const look = () => {
    const kernel = window.jupyterapp?.shell?.currentWidget?.context?.sessionContext?.session?.kernel;
    if (["idle", "busy"].includes(kernel?.status)) return end();
    const seconds = Math.round((Date.now() - began) / 1000);
    const stage = !window.jupyterapp?.shell?.currentWidget ? "lab" : seconds < 30 ? "python" : "slow";
    words.textContent = `${stages[stage]} (${seconds} s).`;
    if (!line.isConnected && document.body) document.body.append(line);
  };
  const timer = setInterval(look, 500);
})();
