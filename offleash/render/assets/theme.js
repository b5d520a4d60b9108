// Light, dark, or as the system; the choice is stored where the browser allows it.
const THEMES = ["auto", "light", "dark"];
const themeListeners = [];
const system = matchMedia("(prefers-color-scheme: dark)");

function stored() {
  try {
    return localStorage.getItem("offleash-theme") || "auto";
  } catch {
    return "auto";
  }
}

function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  const button = document.getElementById("theme");
  button.querySelector("span").textContent = name;
  button.setAttribute("aria-label", `Theme: ${name === "auto" ? "system" : name}; click to change`);
  try {
    localStorage.setItem("offleash-theme", name);
  } catch {
    // a page opened from a file may not be allowed to store anything
  }
  for (const listener of themeListeners) listener();
}

function startTheme() {
  setTheme(THEMES.includes(stored()) ? stored() : "auto");
  document.getElementById("theme").addEventListener("click", () => {
    setTheme(THEMES[(THEMES.indexOf(stored()) + 1) % THEMES.length]);
  });
  system.addEventListener("change", () => themeListeners.forEach((listener) => listener()));
}
