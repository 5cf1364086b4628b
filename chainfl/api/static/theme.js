// Light or dark before the first paint: the person's choice, else the system's.
"use strict";
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const read = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const keep = (theme) => { try { localStorage.setItem("theme", theme); } catch { /* a private window */ } };
  const current = () => read() ?? (system.matches ? "dark" : "light");
  const apply = () => { document.documentElement.dataset.theme = current(); };

  apply();
  system.addEventListener("change", apply);
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    const show = () => { button.textContent = current() === "dark" ? "Light" : "Dark"; };
    show();
    button.addEventListener("click", () => { keep(current() === "dark" ? "light" : "dark"); apply(); show(); });
  });
})();
