// Light or dark as Airflow is: its mode is a class of the page around this one, kept in localStorage under "theme".
(() => {
  const outer = () => {
    try {
      return window.parent === window ? null : window.parent.document.documentElement;
    } catch {
      return null; // a page of somebody else around us
    }
  };
  const chosen = () => {
    const around = outer();
    if (around?.classList.contains("dark")) return "dark";
    if (around?.classList.contains("light")) return "light";
    try {
      const kept = localStorage.getItem("theme");
      if (kept === "dark" || kept === "light") return kept;
    } catch {
      // no storage: as the system is
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  };
  const show = () => {
    const mode = chosen();
    if (document.documentElement.dataset.mode === mode) return;
    document.documentElement.dataset.mode = mode;
    document.dispatchEvent(new Event("gym-mode"));
  };
  show();
  if (outer()) document.documentElement.dataset.framed = "";
  addEventListener("storage", show);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  const around = outer();
  if (around) new MutationObserver(show).observe(around, { attributes: true, attributeFilter: ["class"] });
})();
