import { useEffect, useState } from "preact/hooks";

const THEMES = ["auto", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];
const SIGNS = { auto: "◐", light: "○", dark: "●" };

function remembered(): Theme {
  try {
    return THEMES.find((each) => each === localStorage.getItem("duologue-theme")) ?? "auto";
  } catch {
    return "auto"; // a page in a file may have no storage
  }
}

export function ThemeButton() {
  const [theme, setTheme] = useState<Theme>(remembered);
  useEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("duologue-theme", theme);
    } catch {
      // it is chosen for this visit only
    }
  }, [theme]);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]!;
  return (
    <button type="button" class="icon" aria-label={`Colours: ${theme}`} title={`Colours: ${theme}`} onClick={() => setTheme(next)}>
      {SIGNS[theme]}
    </button>
  );
}
